"""Ctrl-C while a slow server answers, as on a terminal: what is known comes out."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from contextlib import suppress

import pytest

from gpudiag.probes import Labels
from tests.agent.history.remembering import Points, Remembering
from tests.agent.history.test_diagnosing import END, START, hot
from tests.promdouble import double
from tests.running import wait_for


class SlowAfterAWhile:
    """Gives the last quarter of an hour once it is told to."""

    def __init__(self):
        self.go_on = threading.Event()

    def __call__(self, asked):
        last = "[900000ms]" in asked.parameters.get("query", [""])[0]
        if last and float(asked.parameters["time"][0]) > START + 2700.0:
            self.go_on.wait()


@pytest.mark.parametrize("nodes", [1, 3])
def test_what_is_known_comes_out(nodes):
    series: dict[tuple[str, Labels], Points] = {}
    for n in range(nodes):
        series |= hot(instance=f"n{n}:9835")
    slow = SlowAfterAWhile()
    with double(Remembering(series, most=200, spoil=slow)) as server:
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
        # Workers end after their present answer, which must not come before they are told.
        with suppress(subprocess.TimeoutExpired):
            running.wait(5.0)
        slow.go_on.set()
        out, err = running.communicate(timeout=120)
    lines = [json.loads(line) for line in out.splitlines()]
    found = {one["node"] for one in lines if one.get("cause") == "thermal-throttle"}
    assert found == {f"n{n}" for n in range(nodes)}
    assert "not judged to the end: interrupted" in err
    assert running.returncode == 1


def _asked_late(server):
    """How many nodes are at the last quarter of an hour, by the span they ask for."""
    return sum("[900000ms]" in one.parameters.get("query", [""])[0] for one in server.asked) // 4
