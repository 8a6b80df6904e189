import pytest

from gpudiag.agent.rules.contract import Healthy, Unknown, subject
from gpudiag.agent.rules.loss_abnormal import _says_nan
from tests.agent.rules.seam import diagnoses, judge

SYMPTOM = "loss-abnormal"
LOSS = 'gpudiag_train_loss{job="llama",rank="0"}'
STEPS = 'gpudiag_train_steps_total{job="llama",rank="0"}'
BAD = 'gpudiag_train_nonfinite_total{job="llama",rank="0"}'


def found(series):
    return diagnoses(judge(SYMPTOM, series)).get("llama")


def test_a_level_loss_is_healthy():
    assert Healthy(subject(job="llama")) in judge(SYMPTOM, {LOSS: "2.3 2.2 2.25 2.3 2.28x40"})


def test_steps_in_a_row_that_are_not_finite():
    verdict = found({STEPS: "0+10x40", BAD: "0x30 0+10x9"})
    assert (verdict.cause, verdict.severity) == ("loss-not-finite", "critical")
    assert verdict.since == pytest.approx(320.0, abs=10.0)


def test_one_skipped_step_is_none():
    assert found({STEPS: "0+10x40", LOSS: "2.3x40", BAD: "0x36 1x3"}) is None


def test_a_loss_that_is_told_no_more_cannot_be_judged():
    (verdict,) = judge(SYMPTOM, {STEPS: "0+10x40", LOSS: "2.3x30 stale"})
    assert isinstance(verdict, Unknown)
    assert "nonfinite" in verdict.missing[0]


def test_a_jump_is_a_spike_until_it_stays():
    assert found({LOSS: "2.3x40 7"}).cause == "loss-spike"
    assert found({LOSS: "2.3x40 7x12"}).cause == "loss-diverging"


def test_a_spike_that_falls_back_stays_one():
    assert found({LOSS: "2.3x40 9-0.4x14"}).cause == "loss-spike"


def test_two_ranks_the_one_that_moved_is_named():
    other = LOSS.replace('rank="0"', 'rank="1"')
    verdict = found({LOSS: "2.3x60", other: "2.3x40 3.4x19"})
    assert verdict.subject == subject(job="llama", rank="1")


@pytest.mark.parametrize(
    "line",
    [
        "step 12 loss: nan lr 1e-4",
        "{'loss': nan, 'grad_norm': 2.0}",
        "lm loss: -inf | grad norm",
        "loss=tensor(nan, device='cuda:0')",
    ],
)
def test_words_for_a_loss_that_is_not_finite(line):
    assert _says_nan(line)


@pytest.mark.parametrize("line", ["loss 2.3", "loss information", "nanoseconds lost", "lossless"])
def test_words_that_only_look_so(line):
    assert not _says_nan(line)
