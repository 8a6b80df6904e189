"""The whole agent is SIGKILLed at each moment of acting, and started again over what it left."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections import Counter
from urllib.error import HTTPError

import pytest

from tests.agent.live.audit import decisions, lines
from tests.modelserver import model_server
from tests.running import free_port, wait_for

POINTS = (
    *("ledger reserved unready", "audit begun unready", "ledger started unready"),
    *("lever do unready", "audit done unready", "ledger done unready"),
    *("audit not_verified unready", "ledger not_verified unready"),
    *("ledger reserved command", "audit begun command", "ledger started command"),
    *("lever do command", "under way command", "audit done command", "ledger done command"),
    *("ledger done cleared_at command", "lever undo unready", "audit undone unready"),
    *("ledger not_verified undone_at unready", "audit verified command"),
    "ledger verified cleared_at command",
)
SOON = {"under way command"}
ENDED = {"verified", "not_verified"}

# Leaves a mark for each time it is called, and cures the server with that process id.
CURE = """
import os, signal, sys
open(sys.argv[1], "a").write("done\\n")
os.kill(int(sys.argv[2]), signal.SIGUSR2)
"""
CONFIG = """
probes:
  serving: {{cadence: 200ms, servers: [{{name: chat, url: "http://127.0.0.1:{port}"}}]}}
rules:
  serving-stalled: {{thresholds: {{stalled: 2s}}, hold: 0s, clear: 1s}}
actions:
  mode: auto
  workload: chat
  floor: {floor}/v1/models
  ladders:
    hung-server:
      - {{action: unready, promise: 1s, carry: true, hold: 1}}
      - {{action: command, promise: 15s, hold: 1}}
  commands: {{server=chat: {{argv: {cure}}}}}
"""


@pytest.fixture
def hung(start, tmp_path):
    """Begin an agent that dies at a moment, beside a server that hangs: both, and the marks."""
    port, marks = free_port(), tmp_path / "marks"
    marks.touch()
    server = subprocess.Popen([sys.executable, "-m", "tests.fakevllm", str(port)])
    cure = json.dumps([sys.executable, "-c", CURE, str(marks), str(server.pid)])

    def begin(at):
        config = CONFIG.format(port=port, floor=other.url, cure=cure)
        agent = start(config=config, before=mortal(tmp_path, at))
        wait_for(lambda: agent.metric("gpudiag_serving_generation_tokens_total"))
        server.send_signal(signal.SIGUSR1)
        return agent, server, marks

    with model_server(v1__models={"data": []}) as other:
        yield begin
    server.kill()
    server.wait()


def mortal(folder, at=""):
    said = "from pathlib import Path; from tests.agent.live import mortal\nmortal.install("
    return f"{said}Path({str(folder / 'moments')!r}), {at!r})\n"


def entries(agent):
    return {e["plan"]["action"]: e for e in json.loads(agent.get("/api/v1/actions"))["actions"]}


def ended(agent):
    """The entries once both steps were taken and have come to an outcome."""
    known = entries(agent)
    states = {entry["state"] for entry in known.values()}
    return known if len(known) == 2 and states <= ENDED else None


def admitted(agent):
    """Whether requests may come again, and the ledger knows it."""
    try:
        agent.get("/workload/readyz")
    except HTTPError:
        return False
    return entries(agent)["unready"]["undone_at"] is not None


def test_the_moments_are_those_that_a_whole_life_passes(hung, tmp_path):
    agent, _, marks = hung("")
    known = wait_for(lambda: ended(agent), seconds=60)
    wait_for(lambda: admitted(agent), seconds=30)
    moments = (tmp_path / "moments").read_text().splitlines()
    acting = [moment for moment in moments if not moment.startswith("audit refused")]
    assert acting == list(POINTS)
    assert known["command"]["state"] == "verified"
    assert marks.read_text() == "done\n"


@pytest.mark.parametrize(
    "point", [p if p in SOON else pytest.param(p, marks=pytest.mark.long) for p in POINTS]
)
def test_a_killed_agent_does_nothing_twice_and_forgets_nothing(hung, tmp_path, point):
    agent, server, marks = hung(point)
    assert agent.process.wait(60) == -signal.SIGKILL
    agent.before = mortal(tmp_path)
    agent.start()
    known = wait_for(lambda: ended(agent), seconds=60)
    did = marks.read_text()
    assert did == ("" if point == "lever do command" else "done\n")
    if not did:
        assert known["command"]["state"] == "not_verified"
        assert "whether it was done is not known" in whys(agent)
        server.send_signal(signal.SIGUSR2)
    wait_for(lambda: admitted(agent), seconds=30)
    told = Counter(decisions(agent))
    for action, entry in known.items():
        assert told["done", action] >= 1
        assert told[entry["state"], action] >= 1
    assert marks.read_text() == did


def whys(agent):
    return " ".join(line.why for line in lines(agent))
