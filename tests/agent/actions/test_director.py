from __future__ import annotations

import pytest

from gpudiag.agent.actions.contract import Ending, Result
from gpudiag.agent.actions.guard import Allowance
from gpudiag.agent.actions.policy import Step
from gpudiag.agent.rules.contract import UNDETERMINED
from tests.agent.actions.doubles import FakeLever, Stage, hung


@pytest.fixture
def stage(tmp_path):
    return Stage(tmp_path)


def test_a_hung_server_is_drained_restarted_and_readmitted(stage):
    stage.world.firing = [hung()]
    stage.tick(times=14)
    assert len(stage.levers["restart_container"].done) == 1
    stage.world.firing = []
    stage.tick(times=15)
    assert stage.decisions() == [
        *[("begun", "unready"), ("done", "unready"), ("not_verified", "unready")],
        *[("begun", "restart_container"), ("done", "restart_container")],
        *[("undone", "unready"), ("verified", "restart_container")],
    ]


def test_dry_run_says_what_auto_would_do_and_does_nothing(tmp_path):
    plans = {}
    for mode in ("dry-run", "auto"):
        stage = Stage(tmp_path / mode, mode=mode)
        stage.world.firing = [hung()]
        stage.tick()
        plans[mode] = stage.lines()[0].plan
        assert len(stage.levers["unready"].done) == (mode == "auto")
    assert plans["dry-run"] == plans["auto"]


def test_dry_run_says_it_once(tmp_path):
    stage = Stage(tmp_path, mode="dry-run")
    stage.world.firing = [hung()]
    stage.tick(times=20)
    assert stage.decisions() == [("dry_run", "unready")]


def test_off_does_not_even_say(tmp_path):
    stage = Stage(tmp_path, mode="off")
    stage.world.firing = [hung()]
    stage.tick()
    assert stage.lines() == []


@pytest.mark.parametrize(
    "changed",
    [
        {"cause": UNDETERMINED},
        {"explained_by": "gpu-lost{uuid=GPU-1}"},
        {"stale_since": 150.0},
        {"state": "pending", "raised_at": None},
    ],
)
def test_what_is_not_sure_or_not_the_root_never_acts(stage, changed):
    stage.world.firing = [hung(**changed)]
    stage.tick(times=10)
    assert stage.lines() == []


def test_a_person_is_asked_and_their_name_is_in_the_audit(tmp_path):
    stage = Stage(tmp_path, mode="approve")
    stage.world.firing = [hung()]
    stage.tick(times=3)
    assert stage.levers["unready"].done == []
    assert stage.director.approve(stage.lines()[0].plan.id, "ann")
    stage.tick()
    assert [(line.decision, line.actor) for line in stage.lines()] == [
        *[("waiting", "gpudiag"), ("approved", "ann"), ("begun", "ann"), ("done", "ann")]
    ]


def test_a_denied_plan_leaves_the_finding_to_people(tmp_path):
    stage = Stage(tmp_path, mode="approve")
    stage.world.firing = [hung()]
    stage.tick()
    assert stage.director.deny(stage.lines()[0].plan.id, "ann")
    stage.tick(times=30)
    assert stage.decisions()[-1][0] == "denied"


def test_an_unanswered_plan_lapses_after_an_hour(tmp_path):
    stage = Stage(tmp_path, mode="approve")
    stage.world.firing = [hung()]
    stage.tick(seconds=3700.0)
    stage.tick()
    assert stage.lines()[-1].why == "nobody answered in time"
    assert not stage.director.approve(stage.lines()[0].plan.id, "ann")


def test_the_finding_must_stand_at_the_moment_of_acting(stage):
    stage.world.firing = [hung()]
    stage.world.recheck = lambda _: None
    stage.tick(times=3)
    assert stage.decisions() == [("refused", "unready")]


def test_a_lever_that_cannot_be_pulled_is_asked_again(stage):
    lever = stage.levers["unready"]
    lever.why_not = "only 1 replica is ready: the floor"
    stage.world.firing = [hung()]
    stage.tick(times=3)
    lever.why_not = ""
    stage.tick()
    assert [d for d, _ in stage.decisions()] == ["refused", "begun", "done"]


def test_what_made_it_worse_is_undone_at_once(tmp_path):
    stage = Stage(tmp_path)
    stage.world.firing = [hung(severity="warning")]
    stage.tick()
    stage.world.firing = [hung(severity="critical")]
    stage.tick()
    assert stage.decisions()[-2:] == [("worse", "unready"), ("undone", "unready")]
    stage.tick(times=30)
    assert stage.levers["restart_container"].done == []


def test_what_fails_again_at_once_uses_its_budget_and_is_left_alone(tmp_path):
    ladder = (Step("restart_container", promise=60.0, hold=1),)
    stage = Stage(tmp_path, ladder=ladder, allowance=Allowance(restarts=2, cooldown=1.0))
    for again in range(4):
        stage.world.firing = [hung(raised_at=stage.world.time)]
        stage.tick(times=3)
        stage.world.firing = []
        stage.tick(times=1 + again)
    assert len(stage.levers["restart_container"].done) == 2
    refused = [line.why for line in stage.lines() if line.decision == "refused"]
    assert set(refused) == {"the budget of restarts of server=chat is used: 2 of 2 in 24 h"}


def test_a_broken_lever_has_failed_and_the_next_step_follows(stage):
    stage.levers["unready"].ending = ValueError("no such port")
    stage.world.firing = [hung()]
    stage.tick(times=2)
    assert stage.decisions()[:3] == [
        *[("begun", "unready"), ("failed", "unready"), ("begun", "restart_container")]
    ]


def test_what_was_not_accepted_is_tried_three_times_ever_later(stage):
    stage.levers["unready"].ending = Ending.REFUSED
    stage.world.firing = [hung()]
    stage.tick(times=40)
    begun = [line.time for line in stage.lines() if line.decision == "begun"]
    assert begun[:3] == [200.0, 230.0, 290.0]
    assert stage.lines()[6].plan.action == "restart_container"


def test_without_load_nothing_is_proved(stage):
    stage.world.firing = [hung()]
    stage.tick()
    stage.world.firing, stage.world.load = [], False
    stage.tick(times=60)
    assert stage.decisions()[-1] == ("not_verified", "unready")


def test_a_symptom_that_comes_back_while_it_is_watched_was_not_helped(stage):
    stage.world.firing = [hung()]
    stage.tick()
    stage.world.firing = []
    stage.tick(times=2)
    stage.world.firing = [hung(raised_at=210.0)]
    stage.tick()
    assert ("not_verified", "unready") in stage.decisions()


def test_evidence_is_skipped_where_it_cannot_be_taken(tmp_path):
    ladder = (Step("snapshot", promise=60.0, hold=1), Step("unready", promise=60.0, hold=1))
    stage = Stage(tmp_path, ladder=ladder)
    stage.world.firing = [hung()]
    stage.tick()
    assert stage.decisions()[0] == ("begun", "unready")


def test_evidence_needs_no_proof_before_the_next_step(tmp_path):
    ladder = (Step("mark_node", promise=60.0, hold=1), Step("unready", promise=60.0, hold=1))
    levers = {name: FakeLever(name) for name in ("mark_node", "unready")}
    stage = Stage(tmp_path, ladder=ladder, levers=levers)
    stage.world.firing = [hung()]
    stage.tick(times=2)
    assert [d for d in stage.decisions() if d[0] == "done"] == [
        *[("done", "mark_node"), ("done", "unready")]
    ]


def test_no_audit_no_action(stage):
    (stage.folder / "audit.jsonl").mkdir()
    stage.world.firing = [hung()]
    stage.tick(times=3)
    assert stage.levers["unready"].done == []


def test_what_was_done_is_kept_where_the_audit_has_no_room_left_for_it(stage):
    lever, audit = stage.levers["unready"], stage.folder / "audit.jsonl"

    def fills(plan):
        audit.unlink()
        audit.mkdir()
        return Result(Ending.DONE, "done, and the disk is full")

    lever.do = fills
    stage.world.firing = [hung()]
    stage.tick()
    (entry,) = stage.ledger.entries()
    assert (entry.state, entry.detail) == ("done", "done, and the disk is full")


def test_a_spoilt_ledger_stops_all_acting(stage):
    stage.world.firing = [hung()]
    stage.tick()
    with stage.ledger._db as db:
        db.execute("UPDATE actions SET json = x'00'")
    stage.tick(times=40)
    assert stage.levers["restart_container"].done == []
