"""Ctrl-C while a slow server answers, as on a terminal: what is known comes out."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time

import pytest

from gpudiag.probes import Labels
from tests.agent.history.remembering import Points, Remembering
from tests.agent.history.test_diagnosing import END, START, hot
from tests.promdouble import double
from tests.running import wait_for


def slow_after_a_while(asked):
    last = "[900000ms]" in asked.parameters.get("query", [""])[0]
    if last and float(asked.parameters["time"][0]) > START + 2700.0:
        time.sleep(2.0)


@pytest.mark.parametrize("nodes", [1, 3])
def test_what_is_known_comes_out(nodes):
    series: dict[tuple[str, Labels], Points] = {}
    for n in range(nodes):
        series |= hot(instance=f"n{n}:9835")
    with double(Remembering(series, most=200, spoil=slow_after_a_while)) as server:
        running = subprocess.Popen(
            [
                *(sys.executable, "-m", "gpudiag.agent", "diagnose", "--prometheus", server.url),
                *(f"--start={START}", f"--end={END}", "--json", "--workers", "3"),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        wait_for(lambda: _asked_late(server) >= nodes, seconds=60)
        running.send_signal(signal.SIGINT)
        out, err = running.communicate(timeout=30)
    lines = [json.loads(line) for line in out.splitlines()]
    found = {one["node"] for one in lines if one.get("cause") == "thermal-throttle"}
    assert found == {f"n{n}" for n in range(nodes)}
    assert "not judged to the end: interrupted" in err
    assert running.returncode == 1


def _asked_late(server):
    """How many nodes are at the last quarter of an hour, by the span they ask for."""
    return sum("[900000ms]" in one.parameters.get("query", [""])[0] for one in server.asked) // 4
