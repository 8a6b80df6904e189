"""A real job that leaks, beside a real agent: evidence, what is cheap, then a restart."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import pytest

from gpudiag.agent.engine import window_for
from gpudiag.agent.rules import RULES
from gpudiag.agent.window.archive import Archive
from gpudiag.probes import Sample, labels
from tests.agent.live.audit import decisions, lines
from tests.agent.live.jobs import job
from tests.running import wait_for

DEVICE = Path(__file__).with_name("device.py")
MIB = 1 << 20
BEGAN, ALREADY = 200 * MIB, 500 * MIB
CONFIG = """
rules:
  memory-slow-growth: {thresholds: {settled: 10m}, hold: 1s}
recording: {snapshots: {gap: 2s}}
actions:
  mode: auto
  ladders:
    leak:
      - {action: snapshot, promise: 5s, hold: 1}
      - {action: gc, promise: 5s, hold: 1}
      - {action: checkpoint_and_exit, promise: 15m, hold: 1}
"""
FLAGS = ("--log-every", "1", "--eval-every", "100000", "--save-every", "100000")
SLOW = ("--slow-rank", "0", "--slow-ms", "60")


def ran_before(state, now, minutes=20):
    """The history of a job that has leaked for so long when the agent starts."""
    state.mkdir(parents=True)
    window = window_for(RULES, archive=Archive(state / "window.db"))
    of = labels(job="llama", rank="0")
    for second in range(-60 * minutes, 0, 10):
        grown = BEGAN + (ALREADY - BEGAN) * (1.0 + second / (60.0 * minutes))
        window.now = now + second
        window.add([Sample("gpudiag_torch_allocated_bytes", of, now + second, grown)])
        window.save()
    window.close()


def snapshots(agent):
    """The allocator snapshots that the job told of, and that are there."""
    told = json.loads(agent.get("/api/v1/events?source=torch&type=snapshot"))["events"]
    return [path for path in (Path(event["line"]) for event in told) if path.exists()]


def losses(text):
    return dict(re.findall(r"^rank 0 step (\d+) loss (\S+)$", text, re.MULTILINE))


@pytest.mark.long
def test_a_leak_ends_in_a_restart_from_a_checkpoint_that_changes_no_loss(start, tmp_path):
    ran_before(tmp_path / "agent" / "state", time.time())
    agent = start(config=CONFIG)
    training = job(
        agent,
        tmp_path,
        script=DEVICE,
        faults=("--leak", "cache"),
        flags=("--out", str(tmp_path), "--steps", "100000", *FLAGS, *SLOW),
        ALREADY=str(ALREADY),
    )
    try:
        wait_for(lambda: ("done", "checkpoint_and_exit") in decisions(agent), seconds=80)
        (resumed,) = wait_for(lambda: re.findall(r"resumes after step (\d+)", training.output()))
        training.reach(int(resumed) + 20)
    finally:
        training.stop()
    assert decisions(agent)[:7] == [
        *[("begun", "snapshot"), ("done", "snapshot")],
        *[("begun", "gc"), ("done", "gc"), ("not_verified", "gc")],
        *[("begun", "checkpoint_and_exit"), ("done", "checkpoint_and_exit")],
    ]
    assert {line.plan.cause for line in lines(agent)} == {"log-or-cache-buffers"}
    assert len(snapshots(agent)) == 1
    disturbed = losses(training.output())
    agent.stop()
    (tmp_path / "alone").mkdir()
    steps = max(disturbed, key=int)
    out = str(tmp_path / "alone")
    alone = job(agent, tmp_path / "alone", flags=("--out", out, "--steps", steps, *FLAGS))
    assert alone.end() == 0
    undisturbed = losses(alone.output())
    # The step after which it left was done, and its loss not printed.
    del undisturbed[resumed]
    assert disturbed == undisturbed
