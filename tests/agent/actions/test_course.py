"""A restart of a job is judged by where it goes on."""

from __future__ import annotations

import pytest

from gpudiag.agent.actions.policy import Step
from gpudiag.agent.rules.contract import subject
from tests.agent.actions.doubles import FakeLever, Stage, hung

LLAMA = subject(job="llama")
BACK = "resume-not-effective"


def restarted(folder):
    """A job whose workers were just ended for a symptom of its memory."""
    ladder = (
        Step("restart_workers", promise=60.0, hold=1),
        Step("checkpoint", promise=9.0, hold=1),
    )
    stage = Stage(folder, ladder=ladder, levers={s.action: FakeLever(s.action) for s in ladder})
    stage.world.firing = [hung(subject=LLAMA)]
    stage.tick()
    assert stage.decisions()[-1] == ("done", "restart_workers")
    return stage


def interrupted(raised_at, who=LLAMA):
    return hung(symptom="training-interrupted", subject=who, cause=BACK, raised_at=raised_at)


@pytest.mark.parametrize(
    "then",
    [
        pytest.param([interrupted(220.0)], id="found by itself"),
        pytest.param([hung(subject=LLAMA, cause=BACK)], id="the cause of the same finding"),
    ],
)
def test_a_job_that_did_not_go_on_from_its_checkpoint_was_made_worse(tmp_path, then):
    stage = restarted(tmp_path)
    stage.world.firing = then
    stage.tick()
    assert stage.lines()[-1].decision == "worse"
    assert "newest checkpoint" in stage.lines()[-1].why
    stage.world.firing = [hung(subject=LLAMA)]
    stage.tick(times=3)
    assert stage.levers["checkpoint"].done == []


@pytest.mark.parametrize(
    "then",
    [
        pytest.param([interrupted(150.0)], id="known before the restart"),
        pytest.param([interrupted(220.0, subject(job="bert"))], id="another job's"),
        pytest.param([], id="none"),
    ],
)
def test_other_losses_are_not_laid_to_the_restart(tmp_path, then):
    stage = restarted(tmp_path)
    stage.world.firing = then
    stage.tick(times=20)
    assert stage.decisions()[-1] == ("verified", "restart_workers")
