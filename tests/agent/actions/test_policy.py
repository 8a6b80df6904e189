from __future__ import annotations

import pytest

from gpudiag.agent.actions.policy import Policy, Step, shipped
from gpudiag.probes import catalog
from gpudiag.probes.errors import UsageError

CAUSES = [(s.id, cause) for s in catalog.symptoms().values() for cause in (s.causes or ("any",))]


@pytest.mark.parametrize(("symptom", "cause"), CAUSES)
def test_every_cause_has_a_default(symptom, cause):
    policy = shipped()
    assert {f"{symptom}/{cause}", f"{symptom}/*"} & policy.causes.keys()


def test_no_default_is_for_an_unknown_cause():
    known = {f"{s}/{c}" for s, c in CAUSES} | {f"{s}/*" for s, _ in CAUSES}
    extra = {name for name in shipped().causes if name not in known}
    assert {name for name in extra if not name.startswith("gpu-xid/xid-")} == set()


def test_every_ladder_is_used_and_ends():
    policy = shipped()
    assert set(policy.causes.values()) == set(policy.ladders)
    assert all(
        step.promise > 0 and step.hold >= 1 for ladder in policy.ladders.values() for step in ladder
    )


def test_a_ladder_never_goes_down():
    order = ("observe", "notify", "degrade", "drain", "restart")
    for name, ladder in shipped().ladders.items():
        if name != "broken-gpu":
            rungs = [order.index(step.rung) for step in ladder]
            assert rungs == sorted(rungs), name


def test_a_busy_server_is_left_to_people():
    assert shipped().ladder("not-ready", "probe-misleading") == ()
    assert shipped().ladder("serving-latency-high", "overload") == ()


def test_consequences_are_left_to_people():
    assert shipped().ladder("gpu-xid", "xid-45") == ()


def test_the_configuration_goes_over_it():
    mine = (Step("gc", promise=60.0),)
    policy = shipped().under({"mine": mine}, {"straggler/slow-worker": "mine"})
    assert policy.ladder("straggler", "slow-worker") == mine
    assert policy.ladder("straggler", "gpu-throttled") == ()


@pytest.mark.parametrize(
    ("ladders", "causes", "why"),
    [
        ({}, {"straggler/*": "mnie"}, "no such ladder: 'mnie'"),
        ({"mine": (Step("reboot", promise=1.0),)}, {}, "no action 'reboot'"),
    ],
)
def test_a_slip_is_named(ladders, causes, why):
    with pytest.raises(UsageError, match=why):
        shipped().under(ladders, causes)


def test_an_unknown_symptom_has_no_ladder():
    assert Policy({}, {}).ladder("x", "y") == ()
