"""Two slow ranks of one job on two nodes: each is named, and what the job makes of it folds."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from benchmarks.fleet_faults import Fault, job_of, node_name
from benchmarks.fleet_metrics import Fleet, backfill
from gpudiag.agent.cli import root
from tests.prometheus import RunningPrometheus
from tests.tools import needs

pytestmark = [needs("prometheus", "prometheus"), needs("promtool", "prometheus")]

HOT = (Fault(0, 2, "hot", 1200.0, 3000.0), Fault(1, 5, "hot", 1200.0, 3000.0))
JOB = job_of(0)


class TwoHot(Fleet):
    @property
    def faults(self) -> list[Fault]:
        return list(HOT)


@pytest.fixture(scope="module")
def lines(tmp_path_factory):
    folder = tmp_path_factory.mktemp("two")
    server, fleet = RunningPrometheus(folder), TwoHot(4, seconds=3600.0)
    backfill(fleet, folder, server.data)
    url = f"http://127.0.0.1:{server.start().port}"
    asked = ["--start", str(fleet.start), "--end", str(fleet.end), "--workers", "1", "--json"]
    ended = CliRunner().invoke(root, ["diagnose", "--prometheus", url, *asked])
    server.stop()
    return [json.loads(line) for line in ended.stdout.splitlines()]


def test_each_is_named_on_its_node_with_its_hardware(lines):
    slow = [one for one in lines if one.get("symptom") == "straggler" and "node" in one]
    assert {one["node"] for one in slow} == {node_name(0), node_name(1)}
    assert {(one["cause"], one["explained_by"]) for one in slow} == {("gpu-throttled", "")}


def test_nothing_else_of_the_job_is_told_by_itself(lines):
    alone = [one for one in lines if "node" in one and one.get("explained_by") == ""]
    assert {one["symptom"] for one in alone} == {"straggler"}
    echoes = [one for one in lines if one.get("symptom") == "multi-gpu-underperforms"]
    assert {one["node"] for one in echoes} >= {node_name(2), node_name(3)}


def test_the_job_lists_both(lines):
    (job,) = [one for one in lines if one.get("kind") == "job"]
    assert {one["node"] for one in job["findings"]} == {node_name(0), node_name(1)}
