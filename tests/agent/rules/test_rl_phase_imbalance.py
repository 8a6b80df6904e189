import pytest

from gpudiag.agent.rules.contract import Healthy, subject
from tests.agent.rules.seam import diagnoses, judge

SYMPTOM = "rl-phase-imbalance"


def phases(**by_phase):
    """`rollout=["40x9", ...]`: one text per rank, or one for all of a single rank."""
    return {
        f'gpudiag_train_phase_seconds{{job="ppo",rank="{rank}",phase="{phase}"}}': text
        for phase, texts in by_phase.items()
        for rank, text in enumerate(texts)
    } | {'gpudiag_train_steps_total{job="ppo",rank="0"}': "0+1x20"}


def found(**by_phase):
    return diagnoses(judge(SYMPTOM, phases(**by_phase), every=30.0)).get("ppo")


def test_a_balanced_iteration_is_healthy():
    said = judge(SYMPTOM, phases(rollout=["40x20"], update=["30x20"]), every=30.0)
    assert said == [Healthy(subject(job="ppo"))]


def test_phases_without_a_rollout_are_another_kind_of_job():
    assert judge(SYMPTOM, phases(train=["40x20"], eval=["90x20"]), every=30.0) == []


@pytest.mark.parametrize(
    ("more", "cause"),
    [
        ({"weight_sync": ["20x20"]}, "weight-sync-slow"),
        ({"weight_sync": ["2x12 7x7"]}, "weight-sync-slow"),
        ({"reward": ["90x20"]}, "phase-resource-mismatch"),
    ],
)
def test_a_phase_beside_the_others(more, cause):
    assert found(rollout=["40x20"], update=["30x20"], **more).cause == cause


def test_the_longest_rollouts_by_turns():
    turns = ["90 40 40 " * 7, "40 90 40 " * 7, "40 40 90 " * 7]
    verdict = found(rollout=turns, update=["30x20"] * 3)
    assert verdict.cause == "variable-length-tail"
    assert "ranks wait 50.0 s" in verdict.summary


def test_always_the_same_rank_is_no_matter_of_lengths():
    assert found(rollout=["90x20", "50x20", "50x20"], update=["60x20"] * 3) is None
