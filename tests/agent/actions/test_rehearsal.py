"""What a replay says would be done is what a live agent in auto does with the same findings."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from gpudiag.agent.actions.contract import RUNGS
from gpudiag.agent.actions.director import Director, Settings
from gpudiag.agent.actions.leases import NoLease
from gpudiag.agent.actions.policy import shipped
from gpudiag.agent.actions.rehearsal import NODE, Rehearsal
from gpudiag.agent.commands import replay as command
from gpudiag.agent.replay import fresh_engine, load, replay
from tests.agent.actions.doubles import FakeLever, Stage, hung

INCIDENTS = Path(__file__).parents[2] / "incidents"
HUNG = INCIDENTS / "serving-stalled" / "heartbeat-stops.yaml"


class Auto(Stage):
    """A director that acts by the shipped policy, in a recording's time."""

    def start(self):
        super().start()
        self.levers = {name: FakeLever(name, reversible=name == "unready") for name in RUNGS}
        of = Settings("auto", NODE, self.allowance)
        journal, world = self.journal, self.world
        self.director = Director(of, shipped(), self.levers, journal, NoLease(), world)

    def turn(self, now, findings):
        self.world.time, self.world.firing = now, [f for f in findings if f.state == "firing"]
        self.director.tick()

    def first_steps(self):
        begun = (line.plan for line in self.lines() if line.decision == "begun")
        return [plan for plan in begun if plan.step == 0]


@pytest.mark.parametrize("incident", [HUNG, INCIDENTS / "demo.yaml"], ids=lambda path: path.stem)
def test_the_plan_that_is_printed_is_the_plan_that_is_carried_out(tmp_path, incident):
    rehearsal, auto = Rehearsal(), Auto(tmp_path)
    for watch in (rehearsal.turn, auto.turn):
        replay(load(incident), fresh_engine(), watch)
    assert rehearsal.plans
    assert rehearsal.plans == auto.first_steps()


def test_replay_prints_it_with_the_finding():
    told = CliRunner().invoke(command.command, [str(HUNG), "--json"]).stdout
    planned = [plan for line in told.splitlines() for plan in json.loads(line).get("plans", ())]
    assert planned
    assert {(p["action"], p["target"], p["cause"]) for p in planned} == {
        ("unready", "server=chat", "engine-hung")
    }
    shown = CliRunner().invoke(command.command, [str(HUNG)]).stdout
    assert "dry-run: unready at server=chat, planned at" in shown


def test_a_healthy_recording_has_no_plan():
    told = CliRunner().invoke(
        command.command, [str(HUNG.with_name("near-miss-long-passes.yaml")), "--json"]
    )
    assert "unready" not in told.stdout


def test_each_time_it_fires_it_is_planned_anew():
    rehearsal = Rehearsal()
    for raised in (100.0, 500.0):
        for tick in range(8):
            rehearsal.turn(raised + 5.0 * tick, [hung(raised_at=raised)])
        rehearsal.turn(raised + 100.0, [])
    assert [plan.action for plan in rehearsal.plans] == ["unready", "unready"]
    assert len({plan.id for plan in rehearsal.plans}) == 2
