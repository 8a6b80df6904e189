"""`gpudiag agent --replay` as its API shows it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from urllib.request import urlopen

from tests.running import free_port, wait_for

DEMO = Path(__file__).parents[2] / "incidents" / "demo.yaml"


def test_a_replay_tells_where_its_recording_ends() -> None:
    address = f"127.0.0.1:{free_port()}"
    command = [sys.executable, "-m", "gpudiag.agent", "agent", "--replay", str(DEMO)]
    with subprocess.Popen([*command, "--listen", address], stdout=subprocess.PIPE) as agent:
        wait_for(lambda: _info(address), 30)
        agent.terminate()


def _info(address: str) -> bool:
    try:
        with urlopen(f"http://{address}/api/v1/probes") as answer:
            info = json.load(answer)["agent"]
    except OSError:
        return False
    assert (info["started"], info["replay_until"]) == (0.0, 900.0)
    return True
