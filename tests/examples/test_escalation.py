"""A training process that leaks is looked at closely by itself, down to the line that keeps."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from gpudiag.agent.config import Duration
from gpudiag.agent.config.sections import Snapshots
from gpudiag.agent.engine import window_for
from gpudiag.agent.escalation import capture
from gpudiag.agent.escalation.build import escalator_for
from gpudiag.agent.findings.finding import Finding
from gpudiag.agent.rules.contract import subject
from tests.running import RunningAgent, wait_for


@pytest.fixture(autouse=True)
def _time_to_search(monkeypatch):
    """The search for holders ends by itself, and is cut short on a busy machine."""
    monkeypatch.setattr(capture, "CENSUS_SECONDS", 60.0)


def suspicion(job):
    return Finding(
        symptom="memory-slow-growth",
        subject=subject(job=job, rank="0"),
        cause="tensors-retained-across-steps",
        confidence=0.7,
        severity="warning",
        state="pending",
        since=0.0,
        summary="memory grows",
    )


def looked_at(channel, taken, tmp_path, job):
    """The fields of the event that a suspicion of rank 0 led to."""
    told = []
    settings = Snapshots(gap=Duration(2.0))
    (tmp_path / "state").mkdir()
    escalator = escalator_for(
        settings, tmp_path / "state", channel, lambda _, events: told.extend(events), lambda: 1e9
    )
    assert escalator is not None
    for _ in range(2):
        escalator.on_findings(1e9, [suspicion(job)], window_for({}))
    (event,) = wait_for(lambda: told, seconds=90)
    return event, escalator


@pytest.mark.parametrize(
    ("leak", "holder"),
    [
        ("losses", "self._faults._history list in hf_style_loop.py:71"),
        pytest.param(
            *("hook", "self._faults._history list in hf_style_loop.py:71"), marks=pytest.mark.long
        ),
        ("cache", "dict in misbehave.py:97"),
    ],
)
def test_the_holder_is_named(start, channel, socket, taken, tmp_path, leak, holder):
    training = start(
        *("hf_style_loop", "--steps", "100000", "--log-every", "1", "--leak", leak),
        run=("--socket", str(socket)),
    )
    training.reach(20)
    job = wait_for(lambda: taken.labels("gpudiag_train_step_seconds"))[0]["job"]
    event, escalator = looked_at(channel, taken, tmp_path, job)
    assert event.type == "memory_capture"
    assert holder in event.line
    assert event.fields["site"] == holder.rpartition(" ")[2]
    samples = {sample.metric: sample.value for sample in escalator.samples(1e9)}
    assert samples["gpudiag_memory_captures_total"] == 1.0
    assert samples["gpudiag_leak_site_bytes"] > 0


def test_a_job_that_keeps_nothing_is_told_so(start, channel, socket, taken, tmp_path):
    training = start(
        *("hf_style_loop", "--steps", "100000", "--log-every", "1"),
        run=("--socket", str(socket)),
    )
    training.reach(20)
    job = wait_for(lambda: taken.labels("gpudiag_train_step_seconds"))[0]["job"]
    event, _ = looked_at(channel, taken, tmp_path, job)
    assert event.fields["site"] == ""
    assert "no group of live tensors grew" in event.line


def test_a_rank_that_ends_meanwhile_is_told(start, channel, socket, taken, tmp_path):
    training = start(
        *("hf_style_loop", "--steps", "100000", "--log-every", "1"),
        run=("--socket", str(socket)),
    )
    training.reach(20)
    job = wait_for(lambda: taken.labels("gpudiag_train_step_seconds"))[0]["job"]
    training.stop()
    event, _ = looked_at(channel, taken, tmp_path, job)
    assert event.line.startswith("nothing was captured")


def test_a_person_has_a_running_job_looked_at(start, tmp_path):
    folder = tmp_path / "agent"
    folder.mkdir()
    config = "actions: {token: hush}\nrecording: {snapshots: {gap: 2s}}"
    searching = "from gpudiag.agent.escalation import capture; capture.CENSUS_SECONDS = 60.0\n"
    agent = RunningAgent(folder, config=config, before=searching).start()
    try:
        training = start(
            *("hf_style_loop", "--steps", "100000", "--log-every", "1", "--leak", "losses"),
            run=("--socket", str(agent.socket), "--job", "llama"),
        )
        training.reach(20)
        command = [sys.executable, "-m", "gpudiag.agent", "leak-report", "--job", "llama"]
        command += ["--agent", f"http://127.0.0.1:{agent.port}"]
        told = {**os.environ, "GPUDIAG_TOKEN": "hush"}
        done = subprocess.run(command, capture_output=True, text=True, env=told, check=False)
        assert done.returncode == 1, done.stderr
        assert "self._faults._history list in hf_style_loop.py:71 holds" in done.stdout
        refused = subprocess.run(
            command, capture_output=True, text=True, env={**told, "GPUDIAG_TOKEN": "x"}, check=False
        )
        assert "show the token" in refused.stderr
    finally:
        agent.stop()
