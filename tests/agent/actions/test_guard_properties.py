"""Over random findings, clocks, deaths and results the guard's promises hold."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from gpudiag.agent.actions.contract import Ending
from gpudiag.agent.actions.guard import Allowance
from tests.agent.actions.doubles import Stage, hung

ALLOWANCE = Allowance(window=7200.0, target=3, job=3, node=5, restarts=1, cooldown=600.0, trips=3)


class Guarded(RuleBasedStateMachine):
    """Three servers that hang, recover, hang again; levers that work, refuse, break."""

    def __init__(self):
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.stage = Stage(Path(self.folder.name), allowance=ALLOWANCE)

    def teardown(self):
        self.stage.ledger.close()
        self.folder.cleanup()

    @rule(server=st.sampled_from("abc"))
    def hangs(self, server):
        world = self.stage.world
        if not any(dict(f.subject)["server"] == server for f in world.firing):
            world.firing.append(hung(server, raised_at=world.time))

    @rule(server=st.sampled_from("abc"))
    def recovers(self, server):
        world = self.stage.world
        world.firing = [f for f in world.firing if dict(f.subject)["server"] != server]

    @rule(server=st.sampled_from("abc"))
    def flaps(self, server):
        self.recovers(server)
        self.hangs(server)
        self.stage.tick(times=2)
        self.recovers(server)
        self.stage.tick(seconds=40.0, times=4)

    @rule(load=st.sampled_from([True, False, None]), age=st.sampled_from([0.0, 300.0]))
    def turns(self, load, age):
        self.stage.world.load, self.stage.world.age = load, age

    @rule(name=st.sampled_from(["unready", "restart_container"]), ending=st.sampled_from(Ending))
    def will_end(self, name, ending):
        self.stage.levers[name].ending = ending

    @rule(seconds=st.sampled_from([5.0, 60.0, 700.0, 8000.0]), times=st.integers(1, 10))
    def passes(self, seconds, times):
        self.stage.tick(seconds, times)

    @rule()
    def dies(self):
        self.stage.ledger.close()
        self.stage.start()

    @rule()
    def is_reset(self):
        self.stage.ledger.reset_breaker()

    @invariant()
    def every_pull_was_told_before(self):
        told = [line.plan.id for line in self.stage.lines() if line.decision == "begun"]
        pulled = [plan.id for lever in self.stage.levers.values() for plan in lever.done]
        assert len(pulled) == len(set(pulled))
        assert set(pulled) <= set(told)

    @invariant()
    def no_budget_is_exceeded(self):
        done = [
            (line.time, line.plan)
            for line in self.stage.lines()
            if line.decision in {"done", "failed"}
        ]
        for at, plan in done:
            window = [p for t, p in done if at - ALLOWANCE.window < t <= at]
            mine = [p for p in window if p.target == plan.target]
            assert len(window) <= ALLOWANCE.node
            assert len(mine) <= ALLOWANCE.target
            assert sum(p.rung == "restart" for p in mine) <= ALLOWANCE.restarts

    @invariant()
    def episodes_keep_their_distance(self):
        last: dict[str, tuple[float, str]] = {}
        for line in self.stage.lines():
            if line.decision in {"done", "failed"}:
                at, finding = last.get(line.plan.target, (-1e9, ""))
                episode = line.plan.id if line.plan.step == 0 else finding
                if line.plan.step == 0:
                    assert line.time - at >= ALLOWANCE.cooldown
                last[line.plan.target] = line.time, episode


def run(examples):
    quick = settings(
        max_examples=examples,
        derandomize=examples < 100,
        stateful_step_count=30,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    from hypothesis.stateful import run_state_machine_as_test

    run_state_machine_as_test(Guarded, settings=quick)


def test_the_promises_hold():
    run(80)


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_the_promises_hold_over_many_lives():
    run(1000)
