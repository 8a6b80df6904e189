"""A real Prometheus scrapes a real agent as `deploy/` says, and the node's dashboard shows it."""

import time
from pathlib import Path

import pytest
import yaml

from tests.dashboards.boards import BOARDS, NAMES, panels, substituted
from tests.prometheus import RunningPrometheus
from tests.running import wait_for
from tests.tools import needs

SHIPPED = Path(__file__).parents[3] / "deploy" / "prometheus.yaml"
NODE = BOARDS[NAMES.index("gpudiag-node")]
QUIET = {
    "Findings": "nothing is wrong",
    "Cannot tell": "nothing is missing",
    "XIDs": "there was none",
    "Memory by process": "no process runs",
    "MIG instances, memory used": "MIG is off",
    "Memory repair": "a GPU that remaps rows retires no pages",
}
"""Panels of the GPUs of which something is empty on a sound node, and why."""


@pytest.fixture
def scraped(start, sim, tmp_path):
    """A Prometheus with the shipped configuration, but for the address and the interval."""
    agent = start()
    config = yaml.safe_load(SHIPPED.read_text())
    config["global"]["scrape_interval"] = "1s"
    config["rule_files"] = []
    config["scrape_configs"][0]["static_configs"][0]["targets"] = [f"127.0.0.1:{agent.port}"]
    folder = tmp_path / "prometheus"
    folder.mkdir()
    running = RunningPrometheus(folder, yaml.safe_dump(config)).start()
    yield running
    running.stop()


def of_gpus():
    """Panels up to the host's row."""
    for panel in panels(NODE):
        if panel["title"] == "CPU":
            return
        yield panel


def empty(prometheus):
    return {
        panel["title"]
        for panel in of_gpus()
        for target in panel["targets"]
        if not prometheus.at(substituted(target["expr"], "10s", node="127.0.0.1"), time.time())
    }


@needs("prometheus", "prometheus")
def test_the_node_dashboard_shows_a_live_agent(scraped):
    wait_for(lambda: empty(scraped) == QUIET.keys(), seconds=40, every=2)
    known = scraped.at("gpudiag_gpu_info", time.time())
    assert {series["metric"]["cluster"] for series in known} == {"lab"}
    assert len(known) == 8
