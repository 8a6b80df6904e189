"""What helped before, out of a ledger."""

from __future__ import annotations

import msgspec
import pytest

from gpudiag.agent.actions.history import tried
from gpudiag.agent.actions.ledger import Entry
from tests.agent.actions.test_guard import plan


def ended(action, state, at, **changed):
    told = {"rung": "restart", **changed, "action": action}
    made = msgspec.structs.replace(plan(), **told)
    return Entry(plan=made, state=state, at=at, severity="critical")


def test_what_helped_most_often_comes_first():
    told = tried(
        [
            ended("flush_cache", "verified", 1.0),
            ended("flush_cache", "not_verified", 9.0, target="server=other"),
            ended("restart_container", "verified", 2.0),
        ]
    )
    first, second = told["serving-stalled", "engine-hung"]
    assert (first.action, first.helped, first.times) == ("restart_container", 1, 1)
    assert (second.helped, second.times, second.last) == (1, 2, "not_verified")
    assert (second.last_at, second.target) == (9.0, "server=other")


def test_each_cause_has_its_own():
    told = tried([ended("gc", "failed", 1.0), ended("gc", "worse", 2.0, cause="other")])
    assert {cause: one[0].last for (_, cause), one in told.items()} == {
        "engine-hung": "failed",
        "other": "worse",
    }


@pytest.mark.parametrize(("state", "rung"), [("done", "restart"), ("verified", "observe")])
def test_what_is_still_watched_or_only_looked_is_no_history(state, rung):
    assert tried([ended("x", state, 1.0, rung=rung)]) == {}
