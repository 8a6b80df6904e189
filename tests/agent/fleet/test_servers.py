"""`gpudiag fleet` on a real Prometheus with 40 nodes: asked plainly, and from recording rules."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from benchmarks import fleet_faults
from benchmarks.fleet_metrics import Fleet, backfill
from gpudiag.agent.cli import root
from gpudiag.agent.fleet.queries import RECORDED
from tests.prometheus import RunningPrometheus
from tests.tools import needs

pytestmark = [needs("prometheus", "prometheus"), needs("promtool", "prometheus")]

FLEET = Fleet(40, seconds=3600.0)
HOT_RACK = f"r{fleet_faults.hot_rack(FLEET.nodes):04}"
EARLY, LATE = FLEET.start + 0.55 * FLEET.seconds, FLEET.start + 0.9 * FLEET.seconds
SLOW = next(fault for fault in FLEET.faults if fault.kind == "slow")


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fleet")
    server = RunningPrometheus(folder)
    backfill(FLEET, folder, server.data)
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="module")
def recorded(plain):
    """The same server once its recording rules have been evaluated over all its history."""
    rules = [{"record": one.name, "expr": one.expr} for one in RECORDED]
    file = plain.folder / "rules.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "fleet", "rules": rules}]}))
    times = [f"--start={FLEET.start:.0f}", f"--end={FLEET.end:.0f}", "--eval-interval=60s"]
    make = ["promtool", "tsdb", "create-blocks-from", "rules", *times]
    url = f"--url=http://127.0.0.1:{plain.port}"
    done = subprocess.run(
        [*make, url, f"--output-dir={plain.data}", str(file)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    plain.stop()
    return plain.start()


def fleet(server, at, *options):
    """The objects of `--json` by kind, and the exit code."""
    asked = ["fleet", "--prometheus", f"http://127.0.0.1:{server.port}", "--at", str(at), "--json"]
    ended = CliRunner().invoke(root, [*asked, *options])
    assert ended.exit_code in (0, 1, 3), ended.output
    found: dict[str, list[dict[str, Any]]] = {}
    for line in ended.stdout.splitlines():
        one = json.loads(line)
        found.setdefault(one.pop("kind"), []).append(one)
    return found, ended.exit_code


def by(rows, key, value):
    return {row[key]: row[value] for row in rows}


def active(at, seconds=0.0):
    """The planted faults of hardware at that time, for so long already, as (node, symptom)."""
    since = at - FLEET.start
    return {
        (fleet_faults.node_name(fault.node), fault.symptom)
        for fault in FLEET.faults
        if fault.start + seconds <= since < fault.end and fault.kind != "slow"
    }


def test_every_finding_of_every_agent_is_there(plain):
    found, code = fleet(plain, EARLY)
    told = {(f["node"], f["symptom"]) for f in found["finding"] if f["symptom"] != "straggler"}
    assert told == active(EARLY)
    assert len(found["node"]) == FLEET.nodes
    assert code == 1


def test_a_node_whose_ranks_are_all_slow_is_found_though_no_agent_says_so(plain):
    found, _ = fleet(plain, EARLY)
    slow = [f for f in found["finding"] if "node" in f["subject"]]
    assert [f["node"] for f in slow] == [fleet_faults.node_name(SLOW.node)]
    job = next(j for j in found["job"] if j["job"] == fleet_faults.job_of(SLOW.node))
    assert job["blamed"] == [fleet_faults.node_name(SLOW.node)]
    assert job["lost_share"] == pytest.approx(0.12 / 1.12, abs=0.02)


def test_a_hot_gpu_is_the_cause_of_its_rank_and_its_node_the_first_to_drain(plain):
    found, _ = fleet(plain, EARLY)
    slow = {f["node"]: f for f in found["finding"] if "rank" in f["subject"]}
    hot = {node for node, symptom in active(EARLY, 600.0) if symptom == "thermal-throttle"}
    assert slow.keys() == hot
    assert hot
    assert {f["cause"] for f in slow.values()} == {"gpu-throttled"}
    first = {drain["node"] for drain in found["drain"][: len(hot) + 1]}
    assert first == hot | {fleet_faults.node_name(SLOW.node)}


def test_a_rack_that_overheats_is_told_once_with_its_chance(plain):
    found, _ = fleet(plain, LATE)
    (one,) = found["shared"]
    assert one["label"] == {"rack": HOT_RACK}
    assert (len(one["nodes"]), one["with_label"]) == (6, 8)
    assert one["chance"] < 0.01


def test_one_job_is_shown_with_its_nodes_alone(plain):
    job = fleet_faults.job_of(SLOW.node)
    found, _ = fleet(plain, EARLY, "--job", job)
    assert len(found["node"]) == fleet_faults.NODES_A_JOB
    assert {j["job"] for j in found["job"]} == {job}


def test_only_what_is_severe_is_shown_and_fails(plain):
    node = next(n for n, symptom in active(EARLY) if symptom == "thermal-throttle")
    found, code = fleet(plain, EARLY, "--node", node, "--severity", "critical")
    assert "finding" not in found
    assert code == 0


def test_before_there_was_anything_it_could_not_tell(plain):
    asked = ["fleet", "--prometheus", f"http://127.0.0.1:{plain.port}", "--at", "1700000000"]
    ended = CliRunner().invoke(root, asked)
    assert ended.exit_code != 0
    assert "no agent is known there" in str(ended.exception)


def test_nodes_that_lost_their_agent_are_named_and_are_no_health(plain):
    found, code = fleet(plain, FLEET.end + 600.0)
    assert len(found["fleet"][0]["gone"]) == FLEET.nodes
    assert code == 3


def test_recording_rules_give_the_same_answers_and_are_said_to_lack(plain, request):
    asked, _ = fleet(plain, EARLY)
    assert sorted(asked["fleet"][0]["not_recorded"]) == sorted(one.name for one in RECORDED)
    server = request.getfixturevalue("recorded")
    found, _ = fleet(server, EARLY)
    assert found["fleet"][0]["not_recorded"] == []
    assert found["finding"] == asked["finding"]
    # A rule is evaluated up to a minute before the moment asked for: means over five lag by that.
    assert by(found["drain"], "node", "gains_gpus") == pytest.approx(
        by(asked["drain"], "node", "gains_gpus"), abs=0.8
    )
    assert by(found["job"], "job", "lost_share") == pytest.approx(
        by(asked["job"], "job", "lost_share"), abs=0.03
    )
