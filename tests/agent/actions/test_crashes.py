"""The agent is killed at every moment of every action: nothing twice, nothing forgotten."""

from __future__ import annotations

import pytest

from gpudiag.agent.actions.contract import RUNGS, SPENDS
from gpudiag.agent.actions.policy import Step
from tests.agent.actions.doubles import FakeLever, Stage, hung
from tests.agent.actions.dying import PLACES, Killed, Moments, killed

REVERSIBLE = frozenset({"micro_batch", "set_memory_fraction", "pause_server", "gateway", "unready"})
REVERSIBLE |= {"command", "unload_model"}

TWO_STEPS = (
    Step("unready", promise=10.0, hold=1, carry=True),
    Step("restart_container", promise=10.0, hold=1),
)


class TellingLever(FakeLever):
    """Knows whether its pull was told in the audit before."""

    stage: Stage

    def do(self, plan):
        told = [line.plan.id for line in self.stage.lines() if line.decision == "begun"]
        assert plan.id in told
        return super().do(plan)


def stage_for(folder, ladder):
    folder.mkdir()
    levers = {s.action: TellingLever(s.action, s.action in REVERSIBLE) for s in ladder}
    stage = Stage(folder, ladder=ladder, levers=levers)
    for lever in levers.values():
        lever.stage = stage
    return stage


def lived(stage, monkeypatch, at, finding):
    """One life of the agent: the symptom stays away from help, then clears. Moments it saw."""
    moments = Moments(at, killed)
    with monkeypatch.context() as patch:
        for owner, name in PLACES:
            patch.setattr(owner, name, moments.around(getattr(owner, name)))
        stage.world.firing = [finding]
        try:
            stage.tick(times=16)
            stage.world.firing = []
            stage.tick(times=22)
        except Killed:
            stage.ledger.close()
            return None
    return moments.passed


def check(stage, ladder):
    entries = {entry.plan.action: entry for entry in stage.ledger.entries()}
    assert entries.keys() == {step.action for step in ladder}
    for action, lever in stage.levers.items():
        entry = entries[action]
        assert len(lever.done) <= 1
        assert lever.done or "the agent ended" in told(stage, action)
        assert not entry.open
        if lever.reversible and entry.plan.rung in SPENDS:
            # To take back twice is safe by contract; not at all is what must not be.
            assert 1 <= len(lever.undone) <= 2
            assert entry.undone_at is not None


def told(stage, action):
    return " ".join(line.why for line in stage.lines() if line.plan.action == action)


def each_moment(tmp_path, monkeypatch, ladder):
    finding = hung(subject=(("job", "llama"), ("server", "chat")))
    whole = stage_for(tmp_path / "whole", ladder)
    count = lived(whole, monkeypatch, None, finding)
    check(whole, ladder)
    assert all(len(lever.done) == 1 for lever in whole.levers.values())
    for at in range(count):
        stage = stage_for(tmp_path / str(at), ladder)
        assert lived(stage, monkeypatch, at, finding) is None
        stage.start()
        lived(stage, monkeypatch, None, finding)
        check(stage, ladder)
        stage.ledger.close()
    return count


@pytest.mark.parametrize("action", RUNGS)
def test_each_action_is_done_at_most_once_and_never_forgotten(tmp_path, monkeypatch, action):
    ladder = (Step(action, promise=10.0, hold=1, carry=action == "unready"),)
    assert each_moment(tmp_path, monkeypatch, ladder) >= 10


def test_each_step_of_a_ladder_is_taken_once_and_the_drain_is_taken_back(tmp_path, monkeypatch):
    assert each_moment(tmp_path, monkeypatch, TWO_STEPS) >= 30


def test_a_death_while_the_lever_is_pulled_is_not_pulled_again(tmp_path):
    stage = Stage(tmp_path)
    stage.world.firing = [hung()]
    stage.levers["unready"].ending = Killed()
    with pytest.raises(Killed):
        stage.tick()
    stage.ledger.close()
    stage.start()
    stage.tick()
    entry = stage.ledger.entries()[0]
    assert (entry.state, entry.detail[:15]) == ("done", "the agent ended")
