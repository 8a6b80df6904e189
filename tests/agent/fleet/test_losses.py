import pytest

from gpudiag.agent.fleet.draining import drains
from gpudiag.agent.fleet.losses import FLOOR, losses
from gpudiag.agent.fleet.model import Fault, JobState, NodeState
from gpudiag.agent.fleet.sharing import Shared

NODES = {name: NodeState(name, gpus=8) for name in ("n1", "n2", "n3", "n4")}


def job(name="llama", nodes=("n1", "n2"), **more):
    return JobState(name, dict.fromkeys(nodes, 8), **more)


def hot(node, uuid="GPU-1", severity="warning"):
    return Fault(node, "thermal-throttle", "thermal-throttle", severity, 0.9, {"uuid": uuid})


def ecc(node, uuid="GPU-1"):
    return Fault(node, "ecc-uncorrectable", "ecc-uncorrectable", "critical", 0.9, {"uuid": uuid})


def slow(node, name="llama"):
    of = {"job": name, "rank": "3"}
    return Fault(node, "straggler", "gpu-throttled", "warning", 0.8, of)


def test_a_slow_rank_costs_its_share_of_the_step_on_every_rank():
    (loss,) = losses([job(step=1.0, behind=0.25)], [slow("n2")])
    assert (loss.ranks, loss.share, loss.gpus) == (16, 0.25, 4.0)
    assert loss.blamed == ("n2",)


def test_a_job_that_stands_loses_all_of_it():
    stands = Fault("n1", "training-interrupted", "nccl-hang", "critical", 0.9, {"job": "llama"})
    (loss,) = losses([job(step=1.0)], [stands, ecc("n2")])
    assert loss.gpus == 16.0
    assert loss.blamed == ("n2",)


def test_the_larger_job_that_loses_the_same_share_comes_first():
    large = job("large", ("n1", "n2", "n3"), step=1.0, behind=0.2)
    small = job("small", ("n4",), step=1.0, behind=0.2)
    found = losses([small, large], [slow("n4", "small"), slow("n1", "large")])
    assert [loss.job for loss in found] == ["large", "small"]


def test_a_job_on_a_degraded_node_that_does_not_wait_is_told_and_loses_nothing():
    (loss,) = losses([job(step=1.0, behind=0.01)], [hot("n1")])
    assert (loss.gpus, [fault.node for fault in loss.faults]) == (0.0, ["n1"])


def test_scatter_below_the_rules_own_floor_is_no_loss():
    assert losses([job(step=1.0, behind=FLOOR * 0.9)], []) == []
    assert losses([job(step=1.0, behind=FLOOR * 1.1)], [])[0].gpus > 0.0


def test_another_jobs_finding_on_the_same_node_is_not_its_own():
    assert losses([job(step=1.0)], [slow("n1", "other")]) == []


def test_two_equally_bad_nodes_leave_the_blame_open():
    (loss,) = losses([job(step=1.0, behind=0.3)], [hot("n1"), hot("n2")])
    assert not loss.blamed
    assert loss.gpus == pytest.approx(4.8)


def test_the_node_that_holds_up_the_most_gpus_is_drained_first():
    jobs = [
        job("large", ("n1", "n2", "n3"), step=1.0, behind=0.2),
        job("small", ("n4",), step=1.0, behind=0.3),
    ]
    faults = [slow("n2", "large"), slow("n4", "small")]
    first, second = drains(NODES, faults, losses(jobs, faults), [])
    assert (first.node, second.node) == ("n2", "n4")
    assert "large (24 GPUs) loses 20%" in first.why[0]
    assert "straggler (gpu-throttled)" in first.why[0]


def test_gpus_that_fail_count_themselves_and_cost_less_to_take():
    faults = [ecc("n3"), ecc("n3", "GPU-2"), ecc("n1")]
    first, second = drains(NODES, faults, [], [])
    assert (first.node, first.gains, first.costs) == ("n3", 2, 6)
    assert (second.node, second.costs) == ("n1", 7)
    assert first.why == ("2 GPUs with ecc-uncorrectable (ecc-uncorrectable)",)


def test_two_findings_on_one_gpu_are_one_gpu():
    xid = Fault("n3", "gpu-xid", "xid-79", "critical", 0.9, {"uuid": "GPU-1"})
    (one,) = drains(NODES, [ecc("n3"), xid], [], [])
    assert one.gains == 1


def test_a_warning_that_slows_nobody_is_no_reason_to_drain():
    assert drains(NODES, [hot("n1")], losses([job(step=1.0)], [hot("n1")]), []) == []


def test_what_many_nodes_share_is_said_beside_it():
    rack = Shared("ecc-uncorrectable", "x", "rack", "r7", ("n1", "n2", "n3"), 4, 3, 90, 1e-5)
    (one,) = drains(NODES, [ecc("n1")], [], [rack])
    assert one.first == "rack=r7: 2 other nodes there have ecc-uncorrectable too"
