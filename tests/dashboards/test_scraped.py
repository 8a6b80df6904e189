"""What a Prometheus scrapes of an agent that replays an incident is what the dashboards ask for."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest
import yaml

from tests.dashboards.boards import BOARDS, metric_names, questions, substituted
from tests.dashboards.recorded import INCIDENTS
from tests.prometheus import RunningPrometheus
from tests.running import free_port, wait_for
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
    with (folder / "agent.log").open("wb") as log:
        agent = subprocess.Popen(
            [*map(str, replay), "--speed", str(SPEED), "--listen", address], stdout=log, stderr=log
        )
    fired = 'count(gpudiag_finding_active{node="n1"}) == 2'
    wait_for(lambda: prometheus.at(fired, time.time()), 60)
    # Two more scrapes, from which on a rate can be told of what fired last.
    time.sleep(3)
    yield prometheus
    agent.kill()
    agent.wait(10)
    prometheus.stop()


def test_every_panel_shows_what_the_agent_exports(scraped):
    end = time.time()
    there = {s["metric"]["__name__"] for s in scraped.at('{__name__=~"gpudiag_.+"}', end)}
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
        if not (scraped.at(expr, end) if now else scraped.over(expr, end - 60, end, 1))
    ]
    assert len(asked) > 40
    assert set(empty) == OTHER_KINDS


def test_the_finding_is_seen_with_the_place_that_the_scrape_gives_it(scraped):
    (found,) = scraped.at('gpudiag_finding_active{symptom="thermal-throttle"}', time.time())
    assert {"node": "n1", "cluster": "lab", "subject": "uuid=GPU-3"}.items() <= found[
        "metric"
    ].items()
