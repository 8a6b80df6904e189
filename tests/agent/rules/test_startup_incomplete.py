import pytest

from gpudiag.agent.rules.contract import Healthy, Unknown, subject
from tests.agent.rules.seam import diagnoses, judge

SYMPTOM = "startup-incomplete"


def ranks(which, world, steps="0x40"):
    found = {}
    for rank in which:
        of = f'job="llama",rank="{rank}"'
        found[f'gpudiag_train_info{{{of},world_size="{world}"}}'] = "1x40"
        found[f"gpudiag_train_steps_total{{{of}}}"] = steps
    return found


def found(series):
    return diagnoses(judge(SYMPTOM, series)).get("llama")


def test_a_job_past_its_first_steps_is_healthy():
    assert judge(SYMPTOM, ranks([0, 1], 2, "0+5x40")) == [Healthy(subject(job="llama"))]


@pytest.mark.parametrize(("seen", "absent"), [([0, 2, 3], "rank 1 of 4"), ([0, 1, 2], "rank 3 of")])
def test_a_gap_among_the_ranks_has_not_joined(seen, absent):
    verdict = found(ranks(seen, 4))
    assert verdict.cause == "ranks-not-joined"
    assert absent in verdict.summary


def test_half_of_a_job_may_be_on_another_node():
    (verdict,) = judge(SYMPTOM, ranks([0, 1], 4))
    assert isinstance(verdict, Unknown)


def test_half_of_a_job_that_fits_here_has_not_joined():
    assert found({**ranks([0, 1], 4), "gpudiag_gpus": "4x40"}).cause == "ranks-not-joined"


def test_a_first_loss_of_nothing():
    loss = {'gpudiag_train_loss{job="llama",rank="0"}': "0x40"}
    assert found({**ranks([0], 1, "0 1x39"), **loss}).cause == "first-loss-missing-or-abnormal"


@pytest.mark.parametrize(("held", "cause"), [("5e10", True), ("3.3e10", False), ("1e10", True)])
def test_memory_beside_its_budget(held, cause):
    memory = {
        'gpudiag_budget_bytes{job="llama",rank="0",kind="total"}': "3e10x40",
        'gpudiag_torch_allocated_peak_bytes{job="llama",rank="0"}': f"{held}x40",
    }
    verdict = found({**ranks([0], 1, "0 2x39"), **memory})
    assert (verdict is not None and verdict.cause == "memory-far-from-estimate") is cause
