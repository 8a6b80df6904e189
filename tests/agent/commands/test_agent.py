"""`gpudiag agent --replay` as its API shows it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from click.testing import CliRunner

from gpudiag.agent.commands import replay
from tests.running import free_port, wait_for

INCIDENTS = Path(__file__).parents[2] / "incidents"
DEMO = INCIDENTS / "demo.yaml"
HUNG = INCIDENTS / "serving-stalled" / "heartbeat-stops.yaml"


def test_a_replay_tells_where_its_recording_ends() -> None:
    address = f"127.0.0.1:{free_port()}"
    command = [sys.executable, "-m", "gpudiag.agent", "agent", "--replay", str(DEMO)]
    with subprocess.Popen([*command, "--listen", address], stdout=subprocess.PIPE) as agent:
        wait_for(lambda: _info(address), 30)
        agent.terminate()


def test_a_replay_lists_the_very_plans_that_the_command_prints() -> None:
    """The served times are as recorded, the printed ones from the start: this file starts at 0."""
    printed = CliRunner().invoke(replay.command, [str(HUNG), "--json"]).stdout.splitlines()
    wanted = {p["id"]: p for line in printed for p in json.loads(line).get("plans", ())}
    assert wanted
    address = f"127.0.0.1:{free_port()}"
    command = [sys.executable, "-m", "gpudiag.agent", "agent", "--replay", str(HUNG)]
    command += ["--speed", "6000", "--listen", address]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as agent:
        served = wait_for(lambda: _all_of(address, len(wanted)), 60)
        agent.terminate()
    assert served["mode"] == "dry-run"
    assert {one["state"] for one in served["actions"]} == {"dry_run"}
    assert {one["plan"]["id"]: one["plan"] for one in served["actions"]} == wanted


def _all_of(address: str, count: int) -> dict[str, Any] | None:
    try:
        with urlopen(f"http://{address}/api/v1/actions") as answer:
            told: dict[str, Any] = json.load(answer)
    except OSError:
        return None
    return told if len(told["actions"]) >= count else None


def _info(address: str) -> bool:
    try:
        with urlopen(f"http://{address}/api/v1/probes") as answer:
            info = json.load(answer)["agent"]
    except OSError:
        return False
    assert (info["started"], info["replay_until"]) == (0.0, 900.0)
    return True
