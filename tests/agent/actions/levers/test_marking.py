"""Marking a node, against an API server's double over HTTPS."""

from __future__ import annotations

import msgspec
import pytest

from gpudiag.agent.actions.contract import Ending
from gpudiag.agent.actions.levers.marking import MarkNode
from gpudiag.agent.kubernetes.nodes import CORDONED
from tests.agent.actions.test_guard import plan
from tests.kubeserver import TOKEN
from tests.tools import needs

pytestmark = needs("openssl", "openssl")

NODE = "/api/v1/nodes/n1"


def marking(name, cause="xid-79"):
    return msgspec.structs.replace(plan("mark_node", name=name), symptom="gpu-xid", cause=cause)


@pytest.fixture
def node(cluster):
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    return cluster.objects.add(NODE, {"kind": "Node", "status": {"conditions": [ready]}})


@pytest.fixture
def lever(cluster, tmp_path):
    return new_lever(cluster, tmp_path)


def new_lever(cluster, tmp_path, now=1_800_000_000.0, most=0):
    return MarkNode(cluster.api(3.0), "n1", tmp_path / "marks.json", lambda: now, most)


def told(node):
    return next(c for c in node["status"]["conditions"] if c["type"] == "GpudiagProblem")


def test_the_condition_is_set_beside_the_others(cluster, node, lever):
    assert lever.unready(marking("a")) == ""
    assert len(node["status"]["conditions"]) == 1
    assert lever.do(marking("a")).ending is Ending.DONE
    assert told(node) == {
        **{"type": "GpudiagProblem", "status": "True", "reason": "GpuXid79"},
        "message": "gpu-xid/xid-79 at server=chat",
        "lastHeartbeatTime": "2027-01-15T08:00:00Z",
        "lastTransitionTime": "2027-01-15T08:00:00Z",
    }
    assert node["status"]["conditions"][0]["type"] == "Ready"
    assert "spec" not in node


def test_it_is_cleared_once_the_last_finding_is_gone(cluster, node, lever, tmp_path):
    lever.do(marking("a"))
    later = new_lever(cluster, tmp_path, 1_800_000_060.0)
    later.do(marking("b", "xid-48"))
    assert told(node)["message"].count(";") == 1
    assert told(node)["lastTransitionTime"] == "2027-01-15T08:00:00Z"
    assert later.undo(marking("a")).ending is Ending.DONE
    assert (told(node)["status"], told(node)["reason"]) == ("True", "GpuXid48")
    assert new_lever(cluster, tmp_path, 1_800_000_060.0).undo(marking("b", "xid-48"))
    assert (told(node)["status"], told(node)["reason"]) == ("False", "NoProblem")
    assert told(node)["lastTransitionTime"] == "2027-01-15T08:01:00Z"


def test_without_the_right_nothing_is_kept_and_the_answer_says_why(cluster, node, lever):
    cluster.forbidden.add(("PATCH", "/status"))
    assert "403 Forbidden" in lever.unready(marking("a"))
    assert lever.do(marking("a")).ending is Ending.REFUSED
    cluster.forbidden.clear()
    lever.do(marking("b", "xid-48"))
    assert told(node)["message"] == "gpu-xid/xid-48 at server=chat"


def test_a_node_that_the_api_does_not_know_is_told(cluster, lever):
    assert '"n1" not found' in lever.unready(marking("a"))


@pytest.mark.parametrize("fault", [500, "reset", "reset-after", "hang"])
def test_an_unclear_answer_is_asked_again_once(cluster, node, lever, fault):
    cluster.faults.append(("/status", fault))
    assert lever.do(marking("a")).ending is Ending.DONE
    assert told(node)["status"] == "True"


def test_two_unclear_answers_have_failed_and_are_taken_back_all_the_same(cluster, node, lever):
    cluster.faults += [("/status", "reset-after"), ("/status", "reset-after")]
    result = lever.do(marking("a"))
    assert (result.ending, TOKEN in result.detail) == (Ending.FAILED, False)
    cluster.faults += [("/status", 500), ("/status", 500)]
    assert lever.undo(marking("a")).ending is Ending.FAILED
    assert lever.undo(marking("a")).ending is Ending.DONE
    assert told(node)["status"] == "False"


def test_it_cordons_only_where_it_is_told_to_and_lifts_only_its_own(cluster, node, tmp_path):
    lever = new_lever(cluster, tmp_path, most=1)
    assert lever.do(marking("a")).detail.endswith("and is cordoned")
    assert node["spec"]["unschedulable"]
    lever.undo(marking("a"))
    assert "unschedulable" not in node["spec"]
    assert CORDONED not in node["metadata"]["labels"]


def test_a_persons_cordon_stays(cluster, node, tmp_path):
    node["spec"] = {"unschedulable": True}
    lever = new_lever(cluster, tmp_path, most=1)
    assert "somebody else has cordoned it" in lever.do(marking("a")).detail
    lever.undo(marking("a"))
    assert node["spec"] == {"unschedulable": True}


def test_so_many_nodes_are_cordoned_and_no_more(cluster, node, tmp_path):
    other = {"metadata": {"labels": {CORDONED: "true"}}, "spec": {"unschedulable": True}}
    cluster.objects.add("/api/v1/nodes/n2", other)
    result = new_lever(cluster, tmp_path, most=1).do(marking("a"))
    assert "gpudiag has cordoned 1 nodes, and 1 are the most" in result.detail
    assert (result.ending, told(node)["status"]) == (Ending.DONE, "True")
    assert "spec" not in node
    assert "cordoned" in new_lever(cluster, tmp_path, most=2).do(marking("a")).detail
    assert node["spec"]["unschedulable"]


def test_a_cordon_that_cannot_be_lifted_is_tried_again(cluster, node, tmp_path):
    lever = new_lever(cluster, tmp_path, most=1)
    lever.do(marking("a"))
    cluster.faults.append(("/nodes/n1", 500))
    assert "may still be cordoned" in lever.undo(marking("a")).detail
    assert lever.undo(marking("a")).ending is Ending.DONE
    assert "unschedulable" not in node["spec"]
