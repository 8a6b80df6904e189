"""A real agent restarts the workers of a real torchrun, which starts them again by itself."""

from __future__ import annotations

import re

import pytest

from tests.agent.live.audit import decisions
from tests.agent.live.jobs import TORCHRUN, job
from tests.running import wait_for

EVERY, HANGS_AT = 25, 60
CONFIG = """
rules:
  training-interrupted: {thresholds: {still: 6s, steps: 2, grace: 5s}, hold: 1s, clear: 1s}
actions:
  mode: auto
  ladders: {hung: [{action: restart_workers, promise: 5m, hold: 1}]}
"""


@pytest.mark.long
def test_torchrun_goes_on_from_the_newest_checkpoint(start, tmp_path):
    agent = start(config=CONFIG)
    training = job(
        agent,
        tmp_path,
        faults=("--slow-rank", "1", "--slow-ms", "10", "--leave-collective-at", str(HANGS_AT)),
        flags=(
            *("--out", str(tmp_path), "--save-every", str(EVERY)),
            *("--steps", "100000", "--workers", "0", "--log-every", "1"),
        ),
        ranks=2,
        launcher=TORCHRUN,
        # The store is torchrun's own else, and ranks meet the addresses of those before them there.
        TORCH_DISABLE_SHARE_RDZV_TCP_STORE="1",
    )
    try:
        wait_for(lambda: ("done", "restart_workers") in decisions(agent), seconds=90)
        resumed = wait_for(lambda: resumes(training.output()), seconds=60)
        assert len(resumed) == 1
        assert HANGS_AT - EVERY <= resumed[0] < HANGS_AT
        training.reach(HANGS_AT + 2 * EVERY)
        wait_for(lambda: not agent.firing("training-interrupted"), seconds=60)
        verified = wait_for(lambda: decisions(agent)[2:], seconds=120)
        assert verified == [("verified", "restart_workers")]
    finally:
        training.stop()
    assert decisions(agent)[:2] == [("begun", "restart_workers"), ("done", "restart_workers")]
    assert resumes(training.output()) == resumed


def resumes(text):
    """After which steps rank 0 went on, once for each start that found a checkpoint."""
    return [int(step) for step in re.findall(r"^rank 0 resumes after step (\d+)$", text, re.M)]
