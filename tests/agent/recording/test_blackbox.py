from __future__ import annotations

import errno
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpudiag.agent.engine import window_for
from gpudiag.agent.findings.finding import Finding
from gpudiag.agent.recording import reader
from gpudiag.agent.recording.blackbox import BlackBox, rotate
from gpudiag.agent.recording.meta import Meta
from gpudiag.agent.recording.writer import RecordingWriter, partials
from gpudiag.agent.replay import fresh_engine, load, replay
from gpudiag.probes import Event, Sample, labels

NOW = 1.7e9
WINDOW = window_for({})


def _finding(symptom: str = "gpu-xid", **other: Any) -> Finding:
    told: dict[str, Any] = {
        **{"symptom": symptom, "subject": (("uuid", "GPU-1"),), "cause": "xid-79"},
        **{"confidence": 0.9, "severity": "critical", "state": "firing"},
        **{"since": NOW, "raised_at": NOW, "summary": "it fell off the bus"},
    }
    return Finding(**(told | other))


def _at_once(work: Callable[[], None]) -> None:
    work()


def _box(folder: Path, max_bytes: int = 2**24) -> BlackBox:
    return BlackBox(folder, after=60.0, max_bytes=max_bytes, node="n", later=_at_once)


def _live(box: BlackBox, first: float, last: float) -> None:
    """Batches every 5 s from `first` to `last` (seconds around NOW), and evaluations."""
    at = first
    while at <= last:
        box.observe([Sample("gpudiag_gpu_power_watts", labels(uuid="GPU-1"), NOW + at, at)], [])
        box.on_findings(NOW + at, [], WINDOW)
        at += 5.0


def _recorded(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("*")) if folder.exists() else []


def test_what_was_before_and_after_is_recorded(tmp_path: Path) -> None:
    box = _box(tmp_path)
    _live(box, -2000.0, -5.0)
    box.observe([], [Event(NOW, "kmsg", "NVRM: Xid")])
    box.on_findings(NOW, [_finding()], WINDOW)
    _live(box, 0.0, 70.0)
    read = reader.read(tmp_path / "20231114T221320Z-gpu-xid.tar.gz")
    assert -960.0 <= read.start - NOW <= -900.0
    assert 55.0 <= read.end - NOW <= 60.0
    assert len(read.times) == (read.end - read.start) / 5.0 + 1
    assert [e.line for e in read.events] == ["NVRM: Xid"]


def test_it_says_why_it_was_made(tmp_path: Path) -> None:
    box = _box(tmp_path)
    box.on_findings(NOW, [_finding()], WINDOW)
    (partial,) = partials(tmp_path)
    assert (
        '"reason": "gpu-xid{uuid=GPU-1}: it fell off the bus"'
        in (partial / "meta.json").read_text()
    )


@pytest.mark.parametrize(
    "other",
    [{"severity": "warning"}, {"state": "resolved"}, {"explained_by": "gpu-lost{uuid=GPU-1}"}],
)
def test_nothing_else_is_recorded(tmp_path: Path, other: dict[str, str]) -> None:
    _box(tmp_path).on_findings(NOW, [_finding(**other)], WINDOW)
    assert _recorded(tmp_path) == []


def test_the_same_finding_is_recorded_once_an_hour(tmp_path: Path) -> None:
    box = _box(tmp_path)
    for at in (0.0, 100.0, 3500.0, 3700.0):
        box.on_findings(NOW + at, [_finding()], WINDOW)
        box.on_findings(NOW + at + 60.0, [], WINDOW)
    assert len(_recorded(tmp_path)) == 2


def test_another_finding_lengthens_the_recording(tmp_path: Path) -> None:
    box = _box(tmp_path)
    box.on_findings(NOW, [_finding()], WINDOW)
    box.on_findings(NOW + 50.0, [_finding("gpu-lost")], WINDOW)
    box.on_findings(NOW + 100.0, [], WINDOW)
    assert len(partials(tmp_path)) == 1
    box.on_findings(NOW + 110.0, [], WINDOW)
    assert _recorded(tmp_path) == ["20231114T221320Z-gpu-xid.tar.gz"]


def test_a_full_recording_is_completed(tmp_path: Path) -> None:
    box = _box(tmp_path, max_bytes=2000)
    box.on_findings(NOW, [_finding()], WINDOW)
    _live(box, 0.0, 55.0)
    assert _recorded(tmp_path) == ["20231114T221320Z-gpu-xid.tar.gz"]


def test_a_kill_loses_at_most_what_came_since_the_last_evaluation(tmp_path: Path) -> None:
    box = _box(tmp_path)
    _live(box, -100.0, 0.0)
    box.on_findings(NOW, [_finding()], WINDOW)
    _live(box, 5.0, 20.0)
    _box(tmp_path)
    read = reader.read(tmp_path / "20231114T221320Z-gpu-xid.tar.gz")
    assert (read.start - NOW, read.end - NOW) == (-100.0, 20.0)


def test_the_oldest_give_way(tmp_path: Path) -> None:
    for name in ("1.tar.gz", "2.tar.gz", "3.tar.gz", "9.tar.gz.partial"):
        (tmp_path / name).write_bytes(b"x" * 100)
    rotate(tmp_path, 250)
    assert _recorded(tmp_path) == ["2.tar.gz", "3.tar.gz", "9.tar.gz.partial"]


def test_a_broken_one_gives_way_too(tmp_path: Path) -> None:
    (tmp_path / "1.tar.gz.broken").mkdir()
    (tmp_path / "1.tar.gz.broken" / "x").write_bytes(b"x" * 300)
    rotate(tmp_path, 250)
    assert _recorded(tmp_path) == []


def _full_disk(*_: object) -> int:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_full_disk_is_logged_once_and_the_agent_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    box = _box(tmp_path)
    _live(box, -100.0, 0.0)
    with monkeypatch.context() as patched:
        patched.setattr(os, "write", _full_disk)
        for symptom in ("gpu-xid", "gpu-lost"):
            box.on_findings(NOW, [_finding(symptom)], WINDOW)
            _live(box, 5.0, 20.0)
    assert [r.levelname for r in caplog.records if r.levelno >= logging.ERROR] == ["ERROR"]
    assert "No space left on device" in caplog.text
    assert _recorded(tmp_path) == []
    box.on_findings(NOW + 200.0, [_finding("ecc-uncorrectable")], WINDOW)
    assert len(partials(tmp_path)) == 1


def test_what_an_older_agent_left_is_completed_at_the_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    writer = RecordingWriter(tmp_path / "1.tar.gz", Meta(), max_bytes=2**20)
    writer.add([Sample("m", (), 1.0, 1.0)])
    writer.flush()
    with caplog.at_level(logging.INFO):
        _box(tmp_path)
    assert _recorded(tmp_path) == ["1.tar.gz"]
    assert "completed the recording" in caplog.text


def test_what_it_records_gives_the_finding_again(tmp_path: Path) -> None:
    timeline = load(Path(__file__).parents[2] / "incidents/gpu-xid/fallen-off-the-bus.yaml")
    box, engine = _box(tmp_path), fresh_engine()
    for now, samples, events, _ in timeline.batches(5.0):
        engine.ingest(samples, events)
        box.observe(samples, events)
        box.on_findings(now, engine.evaluate(now), engine.window)
    (recording,) = tmp_path.glob("*.tar.gz")
    again = replay(load(recording), fresh_engine())
    assert ("gpu-xid{uuid=GPU-3}", "xid-79") in [(f.id, f.cause) for f in again.findings()]
