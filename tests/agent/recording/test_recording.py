"""Written and read back: what goes into a recording comes out of it, and Prometheus takes it."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import tarfile
from collections.abc import Iterable
from pathlib import Path

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from gpudiag.agent.recording import reader, spool
from gpudiag.agent.recording.meta import Meta
from gpudiag.agent.recording.writer import RecordingWriter, partial_of, partials, recover
from gpudiag.probes import Event, Sample, labels
from gpudiag.probes.errors import GpudiagError, UsageError
from tests.tools import needs

START = 1.7e9
GPU = labels(uuid="GPU-1", gpu="0")
ODD = labels(site='a"b\\c\nd {e="f"} # {')
TTFT = "gpudiag_serving_ttft_seconds"
MIB = 1024**2

EVENT = Event(START + 3.0, "torch", "out of memory", "oom", {"rank": "0"})


def _batch(at: float) -> list[Sample]:
    bounds = [("0.1", 1.0), ("+Inf", 2.0), ("1.0", 2.0)]
    return [
        Sample("gpudiag_gpu_power_watts", GPU, at, 650.5),
        Sample("gpudiag_gpu_energy_joules_total", GPU, at, 1e17),
        Sample("gpudiag_gpu_info", labels(uuid="GPU-1", name="H100"), at, 1.0),
        Sample("DCGM_FI_DEV_GPU_TEMP", GPU, at, float("nan")),
        Sample("gpudiag_leak_site_bytes", ODD, at, float("inf")),
        *(Sample(f"{TTFT}_bucket", labels(server="a", le=le), at, v) for le, v in bounds),
        Sample(f"{TTFT}_sum", labels(server="a"), at, 0.4),
        Sample(f"{TTFT}_count", labels(server="a"), at, 2.0),
    ]


def _written(target: Path, times: Iterable[float], max_bytes: int = MIB) -> Path:
    writer = RecordingWriter(target, Meta("n", "test", START), max_bytes=max_bytes)
    for at in times:
        writer.add(_batch(START + at), [EVENT] if at == 3.0 else [])
    writer.close(START + 60.0)
    return target


TIMES = [0.0, 1.5, 3.0]


@pytest.mark.parametrize("name", ["rec", "rec.tar.gz"])
def test_what_goes_in_comes_out(tmp_path: Path, name: str) -> None:
    read = reader.read(_written(tmp_path / name, TIMES))
    samples, _ = read.samples(0, START + 60.0)
    expected = [s for at in TIMES for s in _batch(START + at)]
    assert sorted(map(repr, samples)) == sorted(map(repr, expected))
    assert read.events == (EVENT,)
    assert (read.start, read.end, read.interval) == (START, START + 3.0, 1.5)


def test_only_the_owner_may_read_it(tmp_path: Path) -> None:
    folder = _written(tmp_path / "rec", TIMES)
    modes = {p.name: stat.S_IMODE(p.stat().st_mode) for p in [folder, *folder.iterdir()]}
    assert modes == {
        "rec": 0o700,
        "snapshots": 0o700,
        "meta.json": 0o600,
        "events.jsonl": 0o600,
        "metrics.om": 0o600,
    }
    archive = _written(tmp_path / "rec.tar.gz", TIMES)
    assert stat.S_IMODE(archive.stat().st_mode) == 0o600


def test_the_strict_parser_of_prometheus_client_takes_it(tmp_path: Path) -> None:
    text = (_written(tmp_path / "rec", [0.0]) / reader.METRICS).read_text()
    families = text_string_to_metric_families(text)
    kinds = {f.name: (f.type, len(f.samples)) for f in families}
    assert kinds == {
        "DCGM_FI_DEV_GPU_TEMP": ("unknown", 1),
        "gpudiag_gpu_energy_joules": ("counter", 1),
        "gpudiag_gpu_info": ("gauge", 1),
        "gpudiag_gpu_power_watts": ("gauge", 1),
        "gpudiag_leak_site_bytes": ("gauge", 1),
        "gpudiag_serving_ttft_seconds": ("histogram", 5),
    }


def test_a_histogram_stands_together_at_each_time(tmp_path: Path) -> None:
    text = (_written(tmp_path / "rec", TIMES) / reader.METRICS).read_text()
    times = [line.rsplit(" ", 1)[1] for line in text.splitlines() if line.startswith(f"{TTFT}_")]
    assert times == [str(START + at) for at in TIMES for _ in range(5)]


@needs("promtool", "prometheus")
def test_prometheus_backfills_from_it(tmp_path: Path) -> None:
    text = _written(tmp_path / "rec", [*TIMES, 7200.0]) / reader.METRICS
    subprocess.run(
        ["promtool", "tsdb", "create-blocks-from", "openmetrics", text, tmp_path / "data"],
        check=True,
        capture_output=True,
    )
    (tmp_path / "data" / "wal").mkdir()
    dump = subprocess.run(
        ["promtool", "tsdb", "dump", tmp_path / "data"], check=True, capture_output=True, text=True
    ).stdout.splitlines()
    assert len(dump) == 4 * len(_batch(0.0))
    assert '{__name__="gpudiag_gpu_power_watts", gpu="0", uuid="GPU-1"} 650.5 1700000001500' in dump


def test_of_two_readings_of_one_moment_the_last_counts(tmp_path: Path) -> None:
    writer = RecordingWriter(tmp_path / "rec", Meta(), max_bytes=MIB)
    writer.add([Sample("m", (), 1.0001, 1.0), Sample("m", (), 0.5, 3.0), Sample("m", (), 1.0, 2.0)])
    writer.close(2.0)
    assert "m 3.0 0.5\nm 2.0 1.0\n# EOF\n" in (tmp_path / "rec" / reader.METRICS).read_text()


def test_an_empty_recording_is_one(tmp_path: Path) -> None:
    read = reader.read(_written(tmp_path / "rec", []))
    assert (len(read.times), read.events, read.start, read.end) == (0, (), START, START)


def test_what_is_over_the_limit_is_left_out_and_said(tmp_path: Path) -> None:
    folder = _written(tmp_path / "rec", map(float, range(1000)), max_bytes=50_000)
    size = (folder / reader.METRICS).stat().st_size
    assert 25_000 < size < 51_000
    assert '"full": true' in (folder / "meta.json").read_text()


def test_an_existing_place_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "rec").mkdir()
    with pytest.raises(UsageError, match="is there already"):
        RecordingWriter(tmp_path, Meta(), max_bytes=MIB)


def test_an_empty_folder_is_taken(tmp_path: Path) -> None:
    (tmp_path / "rec").mkdir()
    assert len(reader.read(_written(tmp_path / "rec", TIMES)).times) == 3 * len(_batch(0.0))


def _killed(target: Path) -> Path:
    writer = RecordingWriter(target, Meta("n", "test", START), max_bytes=MIB)
    writer.add(_batch(START), [EVENT])
    writer.flush()
    writer.add(_batch(START + 1.0))
    partial = partial_of(target)
    with (partial / spool.SAMPLES).open("ab") as samples, (partial / spool.EVENTS).open("ab") as ev:
        samples.write(b"\x00" * 7)
        ev.write(b'{"time":1')
    return partial


def test_a_recording_that_a_kill_cut_off_can_be_read(tmp_path: Path) -> None:
    read = reader.read(_killed(tmp_path / "rec"))
    assert (len(read.times), read.events) == (len(_batch(START)), (EVENT,))


@pytest.mark.parametrize("name", ["rec", "rec.tar.gz"])
def test_a_recording_that_a_kill_cut_off_is_completed(tmp_path: Path, name: str) -> None:
    partial = _killed(tmp_path / name)
    assert recover(partials(tmp_path)) == [tmp_path / name]
    assert len(reader.read(tmp_path / name).times) == len(_batch(START))
    assert not partial.exists()


def test_a_recording_that_a_kill_cut_off_is_not_written_over(tmp_path: Path) -> None:
    _killed(tmp_path / "rec")
    with pytest.raises(UsageError, match="left from a recorder that was killed"):
        RecordingWriter(tmp_path / "rec", Meta(), max_bytes=MIB)


def test_what_cannot_be_completed_is_moved_aside(tmp_path: Path) -> None:
    (_killed(tmp_path / "rec") / spool.SERIES).write_bytes(b"\x00\x00\n")
    assert recover(partials(tmp_path)) == []
    assert [p.name for p in tmp_path.iterdir()] == ["rec.broken"]


def test_a_kill_while_completing_loses_nothing(tmp_path: Path) -> None:
    partial = _killed(tmp_path / "rec")
    (partial / reader.METRICS).write_text("gpudiag_gpu_power_wa")
    assert len(reader.read(partial).times) == len(_batch(START))
    recover(partials(tmp_path))
    assert len(reader.read(tmp_path / "rec").times) == len(_batch(START))


def _full_disk(*_: object, **__: object) -> int:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_full_disk_is_said_once_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = RecordingWriter(tmp_path / "rec", Meta(), max_bytes=MIB)
    writer.add(_batch(START))
    monkeypatch.setattr(os, "write", _full_disk)
    with pytest.raises(GpudiagError, match=r"cannot record to .*No space left on device: make"):
        writer.flush()
    writer.add(_batch(START))
    writer.close(START)
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_at_the_end_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = RecordingWriter(tmp_path / "rec.tar.gz", Meta(), max_bytes=MIB)
    writer.add(_batch(START))
    monkeypatch.setattr(tarfile, "open", _full_disk)
    with pytest.raises(GpudiagError, match="No space left"):
        writer.close(START)
    assert list(tmp_path.iterdir()) == []


def test_a_place_without_rights_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(GpudiagError, match=r"cannot record to .*Not a directory"):
        RecordingWriter(tmp_path / "file" / "rec", Meta(), max_bytes=MIB)
