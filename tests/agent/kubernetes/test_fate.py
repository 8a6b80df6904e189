"""Who starts another pod, and when nobody does."""

from __future__ import annotations

import pytest

from gpudiag.agent.kubernetes import pods
from gpudiag.agent.kubernetes.fate import INDEX_FAILURES, QUEUE, fate
from tests import kubepods
from tests.kubepods import job, jobset, path_of, pod

IGNORE = {"onPodConditions": [{"type": "DisruptionTarget"}], "action": "Ignore"}
FAILS = {**IGNORE, "action": "FailJob"}
EXIT = {"onExitCodes": {"operator": "In", "values": [42]}, "action": "FailJob"}


def follows(of, *there):
    def get(path):
        return next(one for one in there if path_of(one) == path)

    of["metadata"]["uid"] = "u1"
    return fate(pods.read(of), get)


@pytest.mark.parametrize(
    ("owner", "says"),
    [
        ("StatefulSet/chat", "StatefulSet chat starts it again under the same name"),
        ("ReplicaSet/chat-6d", "ReplicaSet chat-6d decides what it starts instead"),
        ("DaemonSet/agent", "DaemonSet agent starts it again on the same node"),
        ("PyTorchJob/llama", "PyTorchJob llama decides what it starts instead"),
    ],
)
def test_a_controller_starts_another(owner, says):
    found = follows(pod(owner=owner))
    assert (found.says, found.lost) == (says, "")


@pytest.mark.parametrize("owner", ["", "Node/n1"])
def test_a_pod_that_nobody_starts_again_would_be_lost(owner):
    assert "no controller" in follows(pod(owner=owner)).lost


def test_an_owner_that_is_no_controller_does_not_count():
    of = pod(owner="Job/llama")
    of["metadata"]["ownerReferences"][0]["controller"] = False
    assert follows(of).lost


def test_a_job_starts_another_while_it_has_retries():
    assert follows(pod(owner="Job/llama"), job(failed=5)).says == (
        "Job llama starts another: 5 of 6 retries are used"
    )
    assert "has used its 6 retries" in follows(pod(owner="Job/llama"), job(failed=6)).lost
    assert "its 0 retries" in follows(pod(owner="Job/llama"), job({"backoffLimit": 0})).lost


def test_a_job_that_does_not_count_disruptions_starts_another_at_any_time():
    spec = {"podFailurePolicy": {"rules": [EXIT, IGNORE, FAILS]}}
    assert not follows(pod(owner="Job/llama"), job(spec, failed=6)).lost
    spec = {"podFailurePolicy": {"rules": [FAILS, IGNORE]}}
    assert follows(pod(owner="Job/llama"), job(spec)).lost


def test_an_indexed_job_counts_for_each_index():
    spec = {"backoffLimitPerIndex": 2, "backoffLimit": 2147483647}
    for used, lost in (("1", False), ("2", True)):
        of = pod(owner="Job/llama", annotations={INDEX_FAILURES: used})
        assert bool(follows(of, job(spec, failed=9)).lost) is lost


def test_a_suspended_job_starts_nothing():
    assert "suspended" in follows(pod(owner="Job/llama"), job({"suspend": True})).lost


@pytest.mark.parametrize(
    ("most", "restarts", "lost"), [(3, 2, False), (3, 3, True), (None, 0, True)]
)
def test_a_jobset_restarts_its_jobs_so_many_times(most, restarts, lost):
    of = job({"backoffLimit": 0}, owner="JobSet/set")
    found = follows(pod(owner="Job/llama"), of, jobset(most, restarts))
    assert bool(found.lost) is lost
    assert "JobSet set" in found.says


def test_kueue_is_told_of():
    found = follows(pod(owner="Job/llama"), job(labels={QUEUE: "gpus"}))
    assert (found.queue, found.lost) == ("gpus", "")
    assert found.says.endswith("Kueue's queue gpus may admit it anew")


def test_pods_of_the_double_read_as_the_apis_do():
    told = kubepods.pod(owner="Job/llama", uid="u1", deletionTimestamp="2026-01-02T00:00:00Z")
    found = pods.read(told)
    assert (found.deleting, found.created, found.path) == (
        True,
        1767225600.0,
        "/api/v1/namespaces/ml/pods/llama-0",
    )
