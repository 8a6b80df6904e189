"""Evicting a pod, against an API server's double over HTTPS."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from gpudiag.agent.actions.contract import Ending
from gpudiag.agent.actions.levers.kubernetes import EvictPod
from gpudiag.agent.kubernetes import pods
from tests.agent.actions.test_guard import plan
from tests.kubepods import job, path_of, pod
from tests.kubeserver import TOKEN
from tests.tools import needs

pytestmark = needs("openssl", "openssl")

PLAN = msgspec.structs.replace(plan("evict_pod"), target="job=llama", made_at=1_800_000_000.0)


@pytest.fixture
def cluster(cluster):
    for one in (pod(owner="Job/llama"), job()):
        cluster.objects.add(path_of(one), one)
    return cluster


@pytest.fixture
def there(cluster):
    return cluster.objects.at["/api/v1/namespaces/ml/pods/llama-0"]


def lever(cluster, timeout=30.0):
    api = cluster.api(timeout)
    return EvictPod(api, pods.own(api, "llama-0", "chat"))


def evictions(cluster):
    asked = cluster.requests("POST", "/eviction")
    return [a for a in asked if "dryRun" not in a.body["deleteOptions"]]


def test_the_pod_is_evicted_by_its_uid_and_the_result_says_what_follows(cluster, there):
    assert lever(cluster).unready(PLAN) == ""
    assert "deletionTimestamp" not in there["metadata"]
    result = lever(cluster).do(PLAN)
    assert result.ending is Ending.DONE
    assert result.detail == (
        "pod llama-0 is evicted: Job llama starts another: 0 of 6 retries are used"
    )
    assert "deletionTimestamp" in there["metadata"]
    (asked,) = evictions(cluster)
    assert asked.body["deleteOptions"]["preconditions"]["uid"] == there["metadata"]["uid"]


def test_a_disruption_budget_that_is_used_means_not_now(cluster, there):
    cluster.objects.disruptions["/api/v1/namespaces/ml/pods/llama-0"] = 0
    assert lever(cluster).unready(PLAN).startswith("not now, to be asked again in 10 s")
    result = lever(cluster).do(PLAN)
    assert (result.ending, "disruption budget" in result.detail) == (Ending.REFUSED, True)
    assert "deletionTimestamp" not in there["metadata"]


def test_a_pod_that_is_gone_is_not_evicted(cluster):
    cluster.objects.at.pop("/api/v1/namespaces/ml/pods/llama-0")
    assert "404" in lever(cluster).unready(PLAN)
    assert lever(cluster).do(PLAN).ending is Ending.REFUSED


def test_a_pod_that_goes_between_looking_and_evicting_is_a_refusal(cluster):
    cluster.faults.append(("/eviction", 404))
    result = lever(cluster).do(PLAN)
    assert (result.ending, result.detail) == (Ending.REFUSED, "pod llama-0 is gone")


def test_another_pod_of_the_same_name_is_left_alone(cluster, there):
    api = cluster.api()
    found = replace(pods.read(there), uid="of-the-one-before")
    result = EvictPod(api, lambda _: found).do(PLAN)
    assert (result.ending, "another one" in result.detail) == (Ending.REFUSED, True)
    assert "deletionTimestamp" not in there["metadata"]


def test_a_pod_that_is_newer_than_the_plan_is_left_alone(cluster, there):
    there["metadata"]["creationTimestamp"] = "2030-01-01T00:00:00Z"
    assert "was created after this was planned" in lever(cluster).unready(PLAN)
    assert lever(cluster).do(PLAN).ending is Ending.REFUSED


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}, "on its way out already"),
        ({"metadata": {"labels": {"gpudiag/actions": "off"}}}, "wants it left alone"),
        ({"status": {"phase": "Succeeded"}}, "has ended"),
        ({"metadata": {"ownerReferences": []}}, "no controller"),
        ({"metadata": {"creationTimestamp": "soon"}}, "in another form"),
    ],
)
def test_what_must_not_be_evicted_is_not(cluster, there, change, why):
    for part, values in change.items():
        there[part].update(values)
    assert why in lever(cluster).unready(PLAN)
    assert lever(cluster).do(PLAN).ending is Ending.REFUSED
    assert not cluster.requests("POST")


@pytest.mark.parametrize("fault", ["reset-after", "hang-after"])
def test_an_eviction_without_an_answer_that_is_seen_to_go_is_done(cluster, fault):
    cluster.faults.append(("/eviction", fault))
    result = lever(cluster, timeout=3.0 if "hang" in fault else 30.0).do(PLAN)
    assert result.ending is Ending.DONE
    assert "on its way out: Job llama" in result.detail
    assert len(evictions(cluster)) == 1


@pytest.mark.parametrize("fault", [500, 503, "reset", "hang"])
def test_an_eviction_without_an_answer_that_is_not_seen_to_go_has_failed(cluster, fault):
    cluster.faults.append(("/eviction", fault))
    result = lever(cluster, timeout=3.0 if fault == "hang" else 30.0).do(PLAN)
    assert result.ending is Ending.FAILED
    assert "was not seen to go" in result.detail
    assert TOKEN not in result.detail
    assert len(evictions(cluster)) == 1


def test_nobody_can_tell_while_the_api_stays_away(cluster):
    cluster.faults.append(("/eviction", "reset-after"))
    api = cluster.api()
    found = pods.own(api, "llama-0", "chat")("job=llama")
    cluster.faults.append(("/llama-0", 500))
    assert EvictPod(api, lambda _: found).do(PLAN).ending is Ending.FAILED


@pytest.mark.parametrize(("method", "end"), [("GET", "/llama-0"), ("POST", "/eviction")])
def test_without_the_right_it_is_refused_with_the_apis_own_words(cluster, method, end):
    cluster.forbidden.add((method, end))
    assert "403 Forbidden" in lever(cluster).unready(PLAN)
    assert lever(cluster).do(PLAN).ending is Ending.REFUSED


def test_a_job_that_cannot_be_asked_about_is_not_risked(cluster):
    cluster.forbidden.add(("GET", "/jobs/llama"))
    assert "what the eviction would lead to is not known" in lever(cluster).unready(PLAN)


def test_a_server_that_is_not_this_pods_is_not_evicted(cluster):
    api = cluster.api()
    whose = pods.own(api, "llama-0", "chat")
    assert "not known to run in this pod" in str(whose("server=elsewhere"))
    assert not isinstance(whose("server=chat"), str)


def test_the_nodes_agent_finds_the_pod_by_the_cgroup_of_its_ranks(cluster, tmp_path):
    uid = "0f0e0d0c-aaaa-bbbb-cccc-001122334455"
    for name, host in (("x-0", "n1"), ("x-1", "n2")):
        one = pod(name, owner="Job/llama", uid=uid)
        one["spec"]["nodeName"] = host
        cluster.objects.add(path_of(one), one)
    for pid, inside in ((7, f"pod{uid.replace('-', '_')}.slice"), (8, f"pod{uid}"), (9, "user")):
        (tmp_path / f"{pid}").mkdir()
        (tmp_path / f"{pid}/cgroup").write_text(f"0::/kubepods/burstable/{inside}/abc\n")
    whose = pods.on_node(cluster.api(), "n1", lambda job: [7, 8, 9, 10], tmp_path)
    found = whose("job=llama")
    assert not isinstance(found, str)
    assert (found.name, found.uid) == ("x-0", uid)
    assert "0 known pods" in str(whose("server=chat"))
    elsewhere = pods.on_node(cluster.api(), "n3", lambda job: [7], tmp_path)
    assert "the API knows no pod" in str(elsewhere("job=llama"))


def test_an_eviction_cannot_be_taken_back(cluster):
    assert lever(cluster).undo(PLAN).ending is Ending.REFUSED
