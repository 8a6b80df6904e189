"""What a Prometheus scrapes of an agent that replays an incident is what the dashboards ask for."""

from __future__ import annotations

import subprocess
import sys
import time
from contextlib import suppress

import pytest
import yaml

from tests.dashboards.boards import BOARDS, metric_names, questions, substituted
from tests.dashboards.recorded import INCIDENTS
from tests.prometheus import RunningPrometheus
from tests.running import PATIENCE, free_port, wait_for
from tests.tools import needs

pytestmark = needs("prometheus", "prometheus")
SPEED = 60
OTHER_KINDS = {("gpudiag-node", "Corrected memory errors A")}
"""The demonstration has the metric, of uncorrectable errors alone."""


def scraping(address):
    job = {
        "job_name": "gpudiag",
        "honor_labels": True,
        "static_configs": [{"targets": [address], "labels": {"node": "n1", "cluster": "lab"}}],
    }
    return yaml.safe_dump({"global": {"scrape_interval": "1s"}, "scrape_configs": [job]})


@pytest.fixture(scope="module")
def scraped(tmp_path_factory):
    """A Prometheus that saw the demonstration incident from its start to its end."""
    address = f"127.0.0.1:{free_port()}"
    folder = tmp_path_factory.mktemp("scraped")
    replay = [sys.executable, "-m", "gpudiag.agent", "agent", "--replay", INCIDENTS / "demo.yaml"]
    prometheus = RunningPrometheus(folder, scraping(address)).start()
    began = time.time()
    with (folder / "agent.log").open("wb") as log:
        agent = subprocess.Popen(
            [*map(str, replay), "--speed", str(SPEED), "--listen", address], stdout=log, stderr=log
        )
    fired = 'count(gpudiag_finding_active{node="n1"}) == 2'
    wait_for(lambda: prometheus.at(fired, time.time()), 60)
    yield prometheus, began
    agent.kill()
    agent.wait(PATIENCE)
    prometheus.stop()


def shown(prometheus, began):
    """How many panels ask for what is there, and those of them that show nothing."""
    end = time.time()
    there = {s["metric"]["__name__"] for s in prometheus.at('{__name__=~"gpudiag_.+"}', end)}
    asked = [
        (board["uid"], where, expr, now)
        for board in BOARDS
        for where, expr, now in questions(board)
        if metric_names(expr) and metric_names(expr) <= there and ":gpudiag_" not in expr
    ]
    plain = [substituted(expr, "10s", "30s", node="n1") for *_, expr, _ in asked]
    empty = [
        (uid, where)
        for (uid, where, _, now), expr in zip(asked, plain, strict=True)
        if not (prometheus.at(expr, end) if now else prometheus.over(expr, began, end, 1))
    ]
    return len(asked), set(empty)


def test_every_panel_shows_what_the_agent_exports(scraped):
    # A rate can be told once what fired last was scraped twice.
    with suppress(AssertionError):
        wait_for(lambda: shown(*scraped)[1] == OTHER_KINDS, every=1.0)
    asked, empty = shown(*scraped)
    assert asked > 40
    assert empty == OTHER_KINDS


def test_the_finding_is_seen_with_the_place_that_the_scrape_gives_it(scraped):
    prometheus, _ = scraped
    (found,) = prometheus.at('gpudiag_finding_active{symptom="thermal-throttle"}', time.time())
    assert {"node": "n1", "cluster": "lab", "subject": "uuid=GPU-3"}.items() <= found[
        "metric"
    ].items()
