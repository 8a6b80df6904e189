from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from click.testing import CliRunner

from gpudiag.agent import recorder
from gpudiag.agent.clock import Clock
from gpudiag.agent.commands.record import command
from gpudiag.agent.inventory import Inventory
from gpudiag.agent.recording import reader
from gpudiag.agent.recording.meta import Meta
from gpudiag.agent.recording.writer import RecordingWriter
from gpudiag.agent.scheduler import Batch, Scheduler
from gpudiag.probes import Event, Record, Sample, labels
from gpudiag.probes.errors import GpudiagError, UsageError
from tests.running import PATIENCE, wait_for

TEXT = '# TYPE m_total counter\nm_total{b="2",a="1"} 5\nm_created{b="2",a="1"} 1\n'


class _Probe:
    name, metrics, cadence = "fake", frozenset({"gpudiag_host_load1"}), 0.02
    closed = False

    def read(self) -> Iterable[Record]:
        now = time.time()
        return [Sample("gpudiag_host_load1", (), now, 1.0), Event(now, "kmsg", "x")]

    def close(self) -> None:
        self.closed = True


class _Hands:
    """A clock that moves when somebody waits."""

    def __init__(self) -> None:
        self.at = 0.0
        self.clock = Clock(lambda: 1000.0 + self.at, lambda: self.at)

    def wait(self, seconds: float) -> None:
        self.at += seconds


def test_probes_are_read_for_as_long_as_asked() -> None:
    probe = _Probe()
    clock, began = Clock(), time.monotonic()
    batches = list(recorder.from_probes(Scheduler([probe], clock), Inventory(), clock, 0.5))
    lasted = time.monotonic() - began
    loads = [s for samples, _ in batches for s in samples if s.metric == "gpudiag_host_load1"]
    assert lasted >= 0.5
    assert 1 <= len(loads) <= lasted / probe.cadence + 1
    assert all(len(events) == 1 for _, events in batches)
    assert probe.closed


def test_an_agent_is_read_each_second() -> None:
    hands = _Hands()
    batches = list(recorder.from_agent(lambda: TEXT, hands.clock, 3.0, hands.wait))
    sample = Sample("m_total", labels(a="1", b="2"), 1000.0, 5.0)
    assert [b[0] for b in batches] == [[sample._replace(time=1000.0 + n)] for n in range(3)]


def test_an_agent_that_goes_away_leaves_a_gap() -> None:
    hands = _Hands()

    def read() -> str:
        if hands.at == 1.0:
            raise GpudiagError("gone")
        return TEXT

    batches = list(recorder.from_agent(read, hands.clock, 3.0, hands.wait))
    assert [b[0][0].time for b in batches] == [1000.0, 1002.0]


def test_text_of_another_kind_is_refused() -> None:
    with pytest.raises(GpudiagError, match="not in Prometheus' format"):
        recorder.parse("<html>\n", 0.0)


def _writer(folder: Path, max_bytes: int = 2**20) -> RecordingWriter:
    return RecordingWriter(folder / "rec", Meta(), max_bytes=max_bytes)


def _batches(number: int) -> Iterator[Batch]:
    for n in range(number):
        yield [Sample("m", (), float(n), 1.0)], []


def test_the_size_limit_ends_it(tmp_path: Path) -> None:
    samples, _ = recorder.write(_batches(10**9), _writer(tmp_path, 1000), Clock())
    assert 10 < samples < 60
    assert len(reader.read(tmp_path / "rec").times) == samples - 1


def test_ctrl_c_completes_it(tmp_path: Path) -> None:
    def batches() -> Iterator[Batch]:
        yield from _batches(3)
        raise KeyboardInterrupt

    assert recorder.write(batches(), _writer(tmp_path), Clock()) == (3, 0)
    assert len(reader.read(tmp_path / "rec").times) == 3


def test_a_source_that_fails_leaves_nothing(tmp_path: Path) -> None:
    def batches() -> Iterator[Batch]:
        raise GpudiagError("no agent answers")
        yield

    with pytest.raises(GpudiagError, match="no agent"):
        recorder.write(batches(), _writer(tmp_path), Clock())
    assert list(tmp_path.iterdir()) == []


class _Metrics(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(TEXT.encode())

    def log_message(self, *_: object) -> None:
        """Quiet."""


def test_the_command_records_an_agent(tmp_path: Path) -> None:
    with HTTPServer(("127.0.0.1", 0), _Metrics) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        out, url = tmp_path / "rec.tar.gz", f"http://127.0.0.1:{server.server_port}"
        told = ["--out", str(out), "--agent", url, "--duration", "100ms"]
        done = CliRunner().invoke(command, told, catch_exceptions=False)
        server.shutdown()
    assert f"1 samples and 0 events: gpudiag replay {out}" in done.stdout
    assert reader.read(out).keys == (("m_total", labels(a="1", b="2")),)


@pytest.mark.parametrize(
    ("told", "complaint"),
    [
        (["--duration", "5"], "'5' is not a duration"),
        (["--max-size", "1"], "'1' is not a size"),
        (["--agent", "localhost:1"], "no agent answers at http://localhost:1"),
        (["--out", ""], "names no recording"),
        (["--agent", "http://127.0.0.1:1"], "no agent answers at http://127.0.0.1:1"),
    ],
)
def test_the_command_says_what_is_wrong(tmp_path: Path, told: list[str], complaint: str) -> None:
    with pytest.raises((UsageError, GpudiagError), match=complaint):
        CliRunner().invoke(command, ["--out", str(tmp_path / "rec"), *told], catch_exceptions=False)
    assert list(tmp_path.iterdir()) == []


def test_a_recorder_that_is_terminated_leaves_a_whole_recording(tmp_path: Path) -> None:
    out = tmp_path / "rec"
    told = ["record", "--out", str(out), "--duration", "600s"]
    code = "from gpudiag.agent.cli import main; main()"
    with subprocess.Popen([sys.executable, "-c", code, *told]) as child:
        spool = tmp_path / "rec.partial" / "samples.spool"
        wait_for(lambda: spool.exists() and spool.stat().st_size, seconds=20)
        child.send_signal(signal.SIGTERM)
        assert child.wait(PATIENCE) == 0
    assert len(reader.read(out).times) > 0
