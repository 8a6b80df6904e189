import pytest

from gpudiag.agent.rules.contract import Healthy, subject
from tests.agent.rules.seam import diagnoses, judge

SYMPTOM = "multi-gpu-underperforms"


def series(ranks=2, **by_part):
    """`step="0.5x60"`: the same text on every rank."""
    return {
        f'gpudiag_train_{part}_seconds{{job="llama",rank="{rank}"}}': text
        for part, text in by_part.items()
        for rank in range(ranks)
    }


def found(more=None, **by_part):
    return diagnoses(judge(SYMPTOM, {**series(**by_part), **(more or {})})).get("llama")


def test_steps_as_ever_are_healthy():
    assert judge(SYMPTOM, series(step="0.5x60")) == [Healthy(subject(job="llama"))]


def test_slower_than_before_and_nothing_measured_is_open():
    verdict = found(step="0.5x40 0.6x30")
    assert verdict.cause == "undetermined"
    assert "gpudiag_train_compute_seconds" in verdict.missing
    assert verdict.since == pytest.approx(400.0, abs=15.0)


def test_a_few_percent_are_noise():
    assert found(step="0.5x40 0.53x30") is None


def test_what_scatters_that_much_is_not_slower():
    assert found(step=" ".join(["0.5 0.62 0.45 0.6"] * 15)) is None


@pytest.mark.parametrize(
    ("part", "cause"),
    [("comm_wait", "comm-not-overlapped"), ("data_wait", "data-starvation")],
)
def test_the_part_that_grew(part, cause):
    parts = {"compute": "0.4x70", "comm_wait": "0.05x70", "data_wait": "0.01x70"}
    assert found(step="0.5x40 0.7x30", **{**parts, part: "0.05x40 0.25x30"}).cause == cause


def test_all_measured_and_flat_is_unexplained_and_says_what_was_ruled_out():
    verdict = found(
        step="0.5x40 0.7x30", compute="0.4x70", comm_wait="0.05x70", data_wait="0.01x70"
    )
    assert verdict.cause == "throughput-regression-unexplained"
    assert {r.cause for r in verdict.rivals} >= {"comm-not-overlapped", "data-starvation"}


def test_a_full_queue_is_no_starvation():
    queue = {
        'gpudiag_train_loader_queue_depth{job="llama",rank="0"}': "8x60",
        'gpudiag_train_loader_queue_capacity{job="llama",rank="0"}': "8x60",
    }
    assert found(queue, step="0.5x60", data_wait="0.2x60") is None


def test_longer_steps_of_more_work_are_no_slower():
    lengths = {'gpudiag_train_sequence_length{job="llama",rank="0"}': "2048x40 4096x30"}
    assert found(lengths, step="0.5x40 0.95x30") is None
