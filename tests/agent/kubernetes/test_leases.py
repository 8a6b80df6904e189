"""Two agents and one lease, whose clocks need not agree."""

from __future__ import annotations

import logging
import threading

import pytest

from gpudiag.agent.kubernetes.leases import KubernetesLease
from tests.kubeserver import TOKEN
from tests.tools import needs

pytestmark = needs("openssl", "openssl")

JOB = "job=llama"


class Agent:
    def __init__(self, cluster, name, epoch=1_800_000_000.0, timeout=30.0):
        self.ticks = 0.0
        now, ticks = (lambda: epoch + self.ticks), (lambda: self.ticks)
        lease = KubernetesLease(cluster.api(timeout), name, now, ticks)
        self.hold, self.release = lease.hold, lease.release


@pytest.fixture
def agents(cluster):
    # The second's wall clock is a day ahead: for it every lease has long run out.
    return Agent(cluster, "a"), Agent(cluster, "b", 1_800_086_400.0)


def spec(cluster):
    (lease,) = cluster.objects.of("leases")
    return lease["spec"]


def test_one_of_two_holds_it_whatever_their_clocks_say(cluster, agents):
    first, second = agents
    assert first.hold(JOB, 60.0)
    assert not second.hold(JOB, 60.0)
    assert second.hold("job=other", 60.0)
    lease = next(o for o in cluster.objects.of("leases") if "llama" in str(o["metadata"]))
    assert lease["spec"]["holderIdentity"] == "a"
    assert lease["spec"]["renewTime"] == lease["spec"]["acquireTime"]


def test_one_that_is_not_renewed_runs_out_by_the_others_own_clock(cluster, agents):
    first, second = agents
    first.hold(JOB, 60.0)
    assert not second.hold(JOB, 60.0)
    second.ticks = 59.0
    assert not second.hold(JOB, 60.0)
    second.ticks = 60.0
    assert second.hold(JOB, 30.0)
    assert spec(cluster)["leaseTransitions"] == 1
    assert spec(cluster)["leaseDurationSeconds"] == 30
    assert not first.hold(JOB, 60.0)


def test_one_that_is_renewed_starts_anew_for_the_other(cluster, agents):
    first, second = agents
    first.hold(JOB, 60.0)
    second.hold(JOB, 60.0)
    first.ticks = second.ticks = 50.0
    assert first.hold(JOB, 60.0)
    second.ticks = 61.0
    assert not second.hold(JOB, 60.0)
    assert spec(cluster)["leaseTransitions"] == 0


def test_given_back_it_is_the_others_at_once(cluster, agents):
    first, second = agents
    first.hold(JOB, 60.0)
    second.release(JOB)
    assert not second.hold(JOB, 60.0)
    first.release(JOB)
    assert second.hold(JOB, 60.0)


@pytest.mark.parametrize("there", [False, True])
def test_many_at_once_and_one_has_it(cluster, there):
    if there:
        before = Agent(cluster, "before")
        before.hold(JOB, 60.0)
        before.release(JOB)
    agents = [Agent(cluster, f"agent-{index}") for index in range(6)]
    held, gate = [], threading.Barrier(len(agents))

    def run(index):
        gate.wait()
        if agents[index].hold(JOB, 60.0):
            held.append(index)

    threads = [threading.Thread(target=run, args=(index,)) for index in range(len(agents))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(held) == 1
    assert spec(cluster)["holderIdentity"] == f"agent-{held[0]}"


@pytest.mark.parametrize("fault", [500, 503, "reset", "hang"])
def test_an_api_that_fails_is_a_no_and_another_day_a_yes(cluster, fault, caplog):
    agent = Agent(cluster, "a", timeout=3.0 if fault == "hang" else 30.0)
    cluster.faults.append(("leases", fault))
    assert not agent.hold(JOB, 60.0)
    assert agent.hold(JOB, 60.0)
    assert TOKEN not in caplog.text


def test_what_was_taken_without_an_answer_is_found_to_be_ours(cluster, agents):
    cluster.faults.append(("leases", "reset-after"))
    first, second = agents
    assert not first.hold(JOB, 60.0)
    assert not second.hold(JOB, 60.0)
    assert first.hold(JOB, 60.0)


def test_without_the_right_nobody_acts_and_the_log_says_why(cluster, agents, caplog):
    cluster.forbidden.add(("POST", "leases"))
    with caplog.at_level(logging.WARNING):
        assert not agents[0].hold(JOB, 60.0)
    assert "403 Forbidden" in caplog.text


def test_giving_back_to_an_api_that_fails_is_logged(cluster, agents, caplog):
    agents[0].hold(JOB, 60.0)
    cluster.tokens = set()
    agents[0].release(JOB)
    assert "was not given back" in caplog.text
