"""The agent is killed at every moment of an action: nothing twice, nothing forgotten."""

from __future__ import annotations

import pytest

from gpudiag.agent.actions import audit, ledger
from tests.agent.actions.doubles import Stage, hung


class Killed(BaseException):
    """SIGKILL, as far as a test can have it: no handler sees it."""


def killed_at(monkeypatch, moment):
    """Die before the `moment`-th write to audit or ledger from now on."""
    left = [moment]

    def dying(work):
        def die_or(*args):
            left[0] -= 1
            if left[0] < 0:
                raise Killed
            return work(*args)

        return die_or

    monkeypatch.setattr(audit.Audit, "write", dying(audit.Audit.write))
    monkeypatch.setattr(ledger.Ledger, "put", dying(ledger.Ledger.put))
    monkeypatch.setattr(ledger.Ledger, "add", dying(ledger.Ledger.add))


def until_death(stage, monkeypatch, moment):
    with monkeypatch.context() as patch:
        killed_at(patch, moment)
        try:
            stage.tick(times=40)
        except Killed:
            stage.ledger.close()
            return True
    return False


@pytest.mark.parametrize("moment", range(14))
def test_each_step_is_taken_once_and_the_drain_is_taken_back(tmp_path, monkeypatch, moment):
    stage = Stage(tmp_path)
    stage.world.firing = [hung()]
    assert until_death(stage, monkeypatch, moment) == (moment < 12)
    stage.start()
    stage.tick(times=80)
    assert [len(lever.done) for lever in stage.levers.values()] == [1, 1]
    stage.world.firing = []
    stage.tick(times=30)
    assert stage.ledger.entries()[0].undone_at is not None
    assert not any(entry.open for entry in stage.ledger.entries())


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
