"""A real job of two ranks whose collective hangs, beside a real agent that may restart it."""

from __future__ import annotations

import json
import time

import pytest

from tests.agent.live.audit import decisions, lines
from tests.agent.live.jobs import job
from tests.running import wait_for

CONFIG = """
rules:
  training-interrupted: {{thresholds: {{still: {still}, steps: 2, grace: 5s}}, hold: 1s, clear: 1s}}
actions:
  mode: auto
  cooldown: 1s
  budget: {{restarts: 1}}
  ladders:
    hung:
      {before}
      - {{action: restart_workers, promise: 5m, hold: 1}}
"""
STACKS = "- {action: dump_stacks, promise: 5s, hold: 1}"


@pytest.mark.long
def test_a_hung_collective_is_told_by_its_stacks_and_restarted_once(start, tmp_path):
    agent = start(config=CONFIG.format(still="6s", before=STACKS))
    training = job(
        agent,
        tmp_path,
        faults=("--slow-rank", "1", "--slow-ms", "10", "--leave-collective-at", "60"),
        flags=("--out", str(tmp_path), "--save-every", "25", "--steps", "100000", "--workers", "0"),
        ranks=2,
    )
    try:
        wait_for(lambda: ("done", "restart_workers") in decisions(agent), seconds=90)
        wait_for(lambda: not agent.firing("training-interrupted"), seconds=60)
        stepped = training.step()
        # Two more rounds of acting in which the job goes on.
        time.sleep(11)
        assert training.step() > stepped
    finally:
        training.stop()
    assert decisions(agent) == [
        *[("begun", "dump_stacks"), ("done", "dump_stacks")],
        *[("begun", "restart_workers"), ("done", "restart_workers")],
    ]
    assert {line.plan.cause for line in lines(agent)} == {"hung-collective"}
    assert training.output().count("rank 0 resumes after step 50\n") == 1
    # Its own restart is no crash to page about, and a job that resumed has lost nothing.
    fired = json.loads(agent.get("/api/v1/findings?since=0"))["findings"]
    assert len([f for f in fired if f["symptom"] == "training-interrupted"]) == 1
    stacks = json.loads(agent.get("/api/v1/events?source=torch&type=hang_dump"))["events"]
    assert any("misbehave.py" in event["line"] for event in stacks)


@pytest.mark.long
def test_a_job_that_hangs_again_at_once_uses_its_budget_and_is_left_alone(start, tmp_path):
    agent = start(config=CONFIG.format(still="12s", before=""))
    hangs = ("--slow-rank", "1", "--slow-ms", "10", "--leave-collective-at", "60")
    training = job(
        agent,
        tmp_path,
        flags=(
            "--out",
            str(tmp_path),
            "--save-every",
            "25",
            "--steps",
            "100000",
            "--workers",
            "0",
            *hangs,
        ),
        ranks=2,
    )
    try:
        (refused,) = wait_for(lambda: over_budget(agent), seconds=110)
        # One more round: nothing more is begun, and it is said once.
        time.sleep(6)
        assert over_budget(agent) == [refused]
    finally:
        training.stop()
    restarts = [d for d, action in decisions(agent) if action == "restart_workers"]
    assert restarts == ["begun", "done", "not_verified"]
    assert refused == "the budget of restarts of job=llama is used: 1 of 1 in 24 h"
    assert training.output().count("rank 0 resumes after step 50\n") == 1


def over_budget(agent):
    """Why restarts were refused, where it was the budget."""
    told = [line.why for line in lines(agent) if line.decision == "refused"]
    return [why for why in told if why.startswith("the budget")]
