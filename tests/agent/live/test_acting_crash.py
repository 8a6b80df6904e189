"""A real job that crashes again at once, however often a real agent has it started again."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import pytest

from tests.agent.live import crashing
from tests.agent.live.audit import decisions, lines
from tests.running import wait_for

SCRIPT = Path(crashing.__file__)
CONFIG = """
rules:
  training-interrupted: {{thresholds: {{grace: 1s}}, hold: 0s, clear: 1s}}
actions:
  mode: auto
  cooldown: 1s
  budget: {{target: 2}}
  policy: {{training-interrupted/process-crash: start-again}}
  ladders: {{start-again: [{again}, {again}, {again}]}}
  commands: {{job=llama: {{argv: {argv}}}}}
"""
AGAIN = "{action: command, promise: 10s, hold: 1}"


def starts(folder):
    return (folder / "starts").read_text().count("\n")


def over_budget(agent):
    told = (line.why for line in lines(agent) if line.decision == "refused")
    return [why for why in told if why.startswith("the budget")]


@pytest.mark.long
def test_a_job_that_crashes_again_at_once_uses_its_budget_and_is_left_to_people(start, tmp_path):
    socket = str(tmp_path / "agent" / "agent.sock")
    argv = [sys.executable, str(SCRIPT), str(tmp_path), socket, "--away"]
    agent = start(config=CONFIG.format(argv=json.dumps(argv), again=AGAIN))
    assert crashing.start(tmp_path, socket).wait(60) == 1
    (refused,) = wait_for(lambda: over_budget(agent), seconds=90)
    assert refused == "the budget of job=llama is used: 2 of 2 in 24 h"
    begun = [d for d in decisions(agent) if d[0] == "begun"]
    assert begun == [("begun", "command")] * 2
    (finding,) = agent.firing("training-interrupted")
    assert finding["cause"] == "process-crash"
    (tried,) = finding["tried"]
    assert (tried["action"], tried["times"], tried["helped"]) == ("command", 2, 0)
    wait_for(lambda: counted(agent) == {"done": 2.0, "not_verified": 2.0, "refused": 1.0})
    # One round more: nothing else is begun, and the refusal is said once.
    time.sleep(6)
    assert over_budget(agent) == [refused]
    assert starts(tmp_path) == 3


def counted(agent):
    """How often starting it again ended how, as the metric has it."""
    name, of = "gpudiag_actions_total", {"action": "command"}
    outcomes = ("done", "not_verified", "refused", "verified", "failed")
    return {o: values[0] for o in outcomes if (values := agent.metric(name, outcome=o, **of))}
