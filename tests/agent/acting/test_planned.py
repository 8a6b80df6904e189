"""What a dry run would do is listed as what was done is."""

from __future__ import annotations

import msgspec

from gpudiag.agent.acting import planned as module
from gpudiag.agent.acting.actor import Actor
from gpudiag.agent.acting.planned import Planned
from gpudiag.agent.config.acting import Actions, LadderStep
from gpudiag.agent.config.base import Duration
from tests.agent.actions.doubles import FakeLever, FakeWorld, Stage, hung
from tests.running import wait_for

CONFIG = Actions(ladders={"hung-server": (LadderStep("unready", Duration(60.0), hold=1),)})


def told(folder, servers):
    """The audit lines of a dry run over servers that hang one after another."""
    stage = Stage(folder, mode="dry-run")
    for number in range(servers):
        stage.world.firing = [hung(f"chat-{number}")]
        stage.tick()
    return stage.lines()


def test_the_newest_plans_are_listed_first_and_old_ones_dropped(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "KEPT", 4)
    planned = Planned()
    lines = told(tmp_path, 7)
    for line in lines:
        planned(line)
    shown = planned.shown()
    assert len(shown) == 4
    assert shown[0]["plan"]["subject"] == {"server": "chat-6"}
    assert [one["plan"]["id"] for one in shown] == [line.plan.id for line in lines[:2:-1]]


def test_a_plan_that_is_told_again_is_listed_once_and_a_refusal_never(tmp_path):
    planned = Planned()
    (line,) = told(tmp_path, 1)
    for decision in ("dry_run", "refused", "dry_run"):
        planned(msgspec.structs.replace(line, decision=decision))
    assert [one["state"] for one in planned.shown()] == ["dry_run"]


def test_an_agent_in_dry_run_lists_what_it_would_do(tmp_path):
    lever = FakeLever("unready")
    world = FakeWorld(firing=[hung()])
    actor = Actor(CONFIG, tmp_path, "n1", world, {lever.name: lever}, str)
    actor.start()
    (one,) = wait_for(lambda: actor.shown()["actions"], seconds=60)
    actor.stop()
    assert (one["plan"]["action"], one["state"]) == ("unready", "dry_run")
    assert lever.done == []
