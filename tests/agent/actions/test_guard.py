from __future__ import annotations

from dataclasses import replace

import pytest

from gpudiag.agent.actions import guard
from gpudiag.agent.actions.contract import RUNGS, Plan
from gpudiag.agent.actions.guard import Allowance, Circumstances
from gpudiag.agent.actions.ledger import Entry
from gpudiag.agent.rules.contract import subject

NOW = 100_000.0


def plan(action="unready", server="chat", name="p", finding="f", step=0, job=""):
    who = {"server": server} | ({"job": job} if job else {})
    return Plan(
        id=name,
        finding=finding,
        symptom="serving-stalled",
        cause="engine-hung",
        subject=subject(**who),
        target=f"server={server}",
        action=action,
        rung=RUNGS[action],
        promise=60.0,
        step=step,
        attempt=0,
        reason="",
        made_at=NOW,
    )


def past(ago, state="verified", **of):
    of.setdefault("name", f"at-{ago}")
    of.setdefault("finding", "other")
    return Entry(plan=plan(**of), state=state, at=NOW - ago, severity="critical")


FINE = Circumstances(now=NOW, agreed=3, hold=3, input_age=2.0, entries=())


def refused(facts=FINE, allowance=None, **of):
    return guard.refusal(plan(**of), facts, allowance or Allowance())


def test_nothing_speaks_against_it():
    assert refused() == ""


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"agreed": 2}, "2 of 3 evaluations"),
        ({"input_age": 31.0}, "31 s old"),
        ({"opted_out": "the label says so"}, "the label says so"),
        ({"maintenance": "maintenance until 04:00"}, "maintenance"),
        ({"breaker": "3 did not help"}, "breaker is open"),
        ({"entries": (past(900, "done"),)}, "taken by unready"),
        ({"entries": (past(599),)}, "wait 1 s more"),
    ],
)
def test_each_reason_stops_it(changed, why):
    assert why in refused(replace(FINE, **changed))


@pytest.mark.parametrize("why", [{"breaker": "open"}, {"maintenance": "now"}])
def test_looking_is_always_allowed(why):
    assert refused(replace(FINE, **why), action="snapshot") == ""


def test_the_cooldown_does_not_part_the_steps_of_one_ladder():
    facts = replace(FINE, entries=(past(60, "not_verified", finding="f"),))
    assert refused(facts, step=1, action="restart_container") == ""


@pytest.mark.parametrize(
    ("entries", "of", "why"),
    [
        ([past(1000 * i) for i in range(1, 7)], {}, "budget of server=chat is used: 6 of 6"),
        ([past(1000 * i, server="b") for i in range(1, 13)], {}, "this node is used: 12 of 12"),
        (
            [past(1000 * i, server=f"s{i}", job="j") for i in range(1, 7)],
            {"job": "j"},
            "budget of job j",
        ),
        (
            [past(1000 * i, action="restart_container") for i in (1, 2)],
            {"action": "restart_container"},
            "restarts of server=chat is used: 2 of 2",
        ),
    ],
)
def test_budgets(entries, of, why):
    assert why in refused(replace(FINE, entries=tuple(entries)), **of)


def test_what_was_refused_or_is_old_costs_nothing():
    old = [past(90_000 + i) for i in range(9)]
    free = [past(700 + i, "refused") for i in range(9)]
    assert refused(replace(FINE, entries=(*old, *free))) == ""


def test_two_verified_restarts_are_no_bad_ending_and_two_in_vain_are():
    good = past(10, "verified", action="restart_container", name="a")
    vain = past(10, "not_verified", action="restart_container", name="b")
    assert guard.bad_endings([good, vain], NOW, 3600.0) == [vain]


def test_what_is_left():
    assert guard.remaining([past(100)], NOW, Allowance(node=3)) == 2
