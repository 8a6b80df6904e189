from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from gpudiag.agent.commands.replay import command
from gpudiag.agent.recording import incident
from gpudiag.agent.recording.timeline import Timeline, timeline
from gpudiag.agent.replay import Blind, Run, fresh_engine, load, replay
from gpudiag.agent.rules.contract import Diagnosis, Healthy, Limits, Rule, Unknown, Verdict
from gpudiag.agent.window import Window
from gpudiag.probes import Event
from gpudiag.probes.errors import UsageError

INCIDENTS = Path(__file__).parents[1] / "incidents"
GPU = (("uuid", "GPU-1"),)


def _hot(window: Window, limits: Limits) -> Iterable[Verdict]:
    for point in window.latest("gpudiag_gpu_temperature_celsius"):
        if point.value > 90.0:
            yield Diagnosis(GPU, "thermal-throttle", 0.9, f"{point.value:g} C", ())
        else:
            yield Healthy(GPU)


def _blind(window: Window, limits: Limits) -> Iterable[Verdict]:
    if window.now >= 20.0:
        yield Unknown((), ("a kernel log", "a driver"))


RULES = {
    "thermal-throttle": Rule(check=_hot, clear=10.0, events=frozenset({"kmsg"})),
    "gpu-lost": Rule(check=_blind),
}


def _run(text: str) -> Run:
    return replay(incident.parse(text).timeline, fresh_engine(RULES))


def _temperatures(values: str, more: str = "") -> Run:
    series = "'gpudiag_gpu_temperature_celsius{uuid=\"GPU-1\"}'"
    return _run(f"interval: 10s\ninput_series:\n- {{series: {series}, values: {values}}}\n{more}")


def test_a_finding_is_told_firing_and_resolved() -> None:
    told = [(f.state, f.raised_at, f.resolved_at) for f in _temperatures("80 95x1 80x3").findings()]
    assert told == [("firing", 10.0, None), ("resolved", 10.0, 40.0)]


def test_a_finding_that_comes_back_is_told_again() -> None:
    run = _temperatures("95 80x2 95")
    assert [(f.state, f.raised_at) for f in run.findings()] == [
        ("firing", 0.0),
        ("resolved", 0.0),
        ("firing", 40.0),
    ]


def test_it_stands_as_at_the_end() -> None:
    (finding,) = _temperatures("95 96 97").findings()
    assert (finding.summary, finding.raised_at) == ("97 C", 0.0)


def test_an_event_makes_its_rules_run_at_once() -> None:
    text = "events:\n- {at: 12s, source: kmsg, line: x}\n- {at: 30s, source: torch, line: x}"
    series = "'gpudiag_gpu_temperature_celsius'"
    values = "_x3 95 _x3"
    run = _run(f"interval: 3s\ninput_series:\n- {{series: {series}, values: {values}}}\n{text}")
    assert [f.raised_at for f in run.findings()] == [10.0]


def test_an_event_between_the_steps_is_seen_at_its_time() -> None:
    text = "events:\n- {at: 12.5s, source: kmsg, line: x}\n- {at: 30s, source: torch, line: x}"
    series = "{series: gpudiag_gpu_temperature_celsius, values: _x4 95 _}"
    run = _run(f"interval: 3s\ninput_series:\n- {series}\n{text}")
    assert [f.raised_at for f in run.findings()] == [12.5]


def test_what_cannot_be_told_at_the_end_is_told() -> None:
    run = _temperatures("80x4")
    assert run.blind == (Blind("gpu-lost", 20.0, ("a kernel log", "a driver")),)
    assert run.blind[0].to_json() == {
        "symptom": "gpu-lost",
        "state": "unknown",
        "missing": ["a kernel log", "a driver"],
    }


def _recorded(times: list[float], start: float | None = None) -> Timeline:
    key = ("gpudiag_gpu_temperature_celsius", GPU)
    column = (key, np.array(times), np.full(len(times), 95.0))
    return timeline([column], [], start=start)


def test_times_of_a_recording_count_from_its_start() -> None:
    run = replay(_recorded([1.7e9 + 10, 1.7e9 + 20], start=1.7e9), fresh_engine(RULES))
    assert [(f.since, f.raised_at) for f in run.findings()] == [(10.0, 10.0)]


def test_an_event_older_than_the_start_counts_at_the_start() -> None:
    old = timeline([(("m", ()), np.array([100.0, 110.0]), np.ones(2))], [Event(1.0, "kmsg", "x")])
    assert [(b[0], len(b[2])) for b in old.batches(5.0)] == [(100.0, 1), (105.0, 0), (110.0, 0)]


def test_the_last_batch_is_at_the_end_off_the_step() -> None:
    at_seven = timeline([(("m", ()), np.array([0.0, 7.0]), np.ones(2))], [])
    assert [b[0] for b in at_seven.batches(5.0)] == [0.0, 5.0, 7.0]


def test_the_spacing_of_a_recording_is_measured() -> None:
    assert _recorded([0.0, 10.0, 20.0, 21.0]).interval == 10.0


def test_a_span_that_must_be_wrong_is_refused(tmp_path: Path) -> None:
    (tmp_path / "metrics.om").write_text("m 1 0\nm 1 1\nm 1 2\nm 1 1e8\n# EOF\n")
    with pytest.raises(UsageError, match="spans 1157 days"):
        load(tmp_path)


def test_nothing_recorded_is_a_run_of_one_moment() -> None:
    assert _run("title: empty").findings() == []


def test_two_replays_are_the_same() -> None:
    path = INCIDENTS / "gpu-xid" / "fallen-off-the-bus.yaml"
    first, second = (replay(load(path), fresh_engine()) for _ in range(2))
    assert first == second
    assert first.versions


def test_the_command_prints_a_finding_a_line() -> None:
    path = INCIDENTS / "gpu-xid" / "fallen-off-the-bus.yaml"
    done = CliRunner().invoke(command, [str(path), "--json"])
    assert '"symptom": "gpu-xid"' in done.stdout.splitlines()[0]
    assert done.exit_code == 1


def test_the_command_fails_where_the_check_differs(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("expect: [{symptom: gpu-xid}]")
    done = CliRunner().invoke(command, [str(tmp_path / "a.yaml"), "--check"])
    assert done.exit_code == 1
    assert "expected gpu-xid to be firing, but there was nothing of this symptom" in done.stderr


def test_the_command_shows_a_person_what_when_and_why() -> None:
    path = INCIDENTS / "gpu-xid" / "fallen-off-the-bus.yaml"
    done = CliRunner().invoke(command, [str(path), "--check"])
    assert "raised at 3m23.1s" in done.stdout
    assert "CRITICAL  gpu-xid  uuid=GPU-3" in done.stdout
    assert done.exit_code == 0


def test_the_command_names_an_absent_file() -> None:
    with pytest.raises(UsageError, match="cannot read gone"):
        CliRunner().invoke(command, ["gone.yaml"], catch_exceptions=False)


def test_the_order_of_hashing_changes_nothing() -> None:
    path = INCIDENTS / "gpu-xid" / "fallen-off-the-bus.yaml"
    code = "from gpudiag.agent.cli import main; main()"
    told = [
        subprocess.run(
            [sys.executable, "-c", code, "replay", str(path), "--json"],
            env={"PYTHONHASHSEED": seed},
            check=False,
            capture_output=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert told[0] == told[1]
    assert b"xid-79" in told[0]
