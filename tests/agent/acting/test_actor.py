"""The actor beside its writer and its readers."""

from __future__ import annotations

import sqlite3
import time

import msgspec
import pytest

from gpudiag.agent.acting.actor import Actor
from gpudiag.agent.actions.ledger import Ledger
from gpudiag.agent.config.acting import Actions, LadderStep
from gpudiag.agent.config.base import Duration
from gpudiag.agent.exporters import words
from tests.agent.actions.doubles import FakeLever, FakeWorld, hung
from tests.running import wait_for

CONFIG = Actions(
    mode="auto",
    ladders={"once": (LadderStep("restart_container", Duration(60.0), hold=1),)},
    policy={"serving-stalled/engine-hung": "once"},
)


def values(actor):
    return {sample.metric: sample.value for sample in actor.samples(0.0)}


@pytest.fixture
def world():
    return FakeWorld(firing=[hung()])


@pytest.fixture
def lever():
    return FakeLever("restart_container")


@pytest.fixture
def actor(tmp_path, world, lever):
    made = Actor(CONFIG, tmp_path, "n1", world, {lever.name: lever}, str)
    yield made
    made.stop()


def test_figures_do_not_wait_for_a_disk_that_stalls(actor, tmp_path, lever):
    stalled = sqlite3.connect(tmp_path / "actions.db", isolation_level=None)
    stalled.execute("BEGIN EXCLUSIVE")
    actor.start()
    # The first round comes after 5 s: from then on its reservation waits for the disk.
    time.sleep(5.5)
    assert lever.done == []
    began = time.monotonic()
    assert values(actor)["gpudiag_action_budget_remaining"] == 12.0
    # Who waits for the disk is refused after 5 s, of which half a second is over.
    assert time.monotonic() - began < 4.0
    stalled.close()
    wait_for(lambda: lever.done, seconds=30)
    wait_for(lambda: values(actor)["gpudiag_action_budget_remaining"] == 11.0)


def test_what_helped_is_shown_with_the_next_finding_of_the_cause(tmp_path, world, lever):
    actor = Actor(CONFIG, tmp_path, "n1", world, {lever.name: lever}, str)
    world.firing = [hung()]
    assert actor.tried(hung()) == ()
    actor.start()
    wait_for(lambda: lever.done)
    world.firing = []
    wait_for(lambda: [e for e in actor.shown()["actions"] if e["cleared_at"]])
    world.time += 100.0
    (told,) = wait_for(lambda: actor.tried(hung("other")))
    actor.stop()
    assert (told.action, told.helped, told.last) == ("restart_container", 1, "verified")
    assert actor.tried(hung(cause="scheduler-livelock")) == ()
    shown = words.remarks({"tried": [msgspec.to_builtins(told)]})
    assert shown[0].startswith("earlier for this cause: restart_container helped 1 of 1 time")


def test_a_ledger_that_cannot_be_read_is_an_open_breaker(tmp_path, world, lever):
    (tmp_path / "actions.db").write_bytes(b"not a ledger, whatever its name")
    actor = Actor(CONFIG, tmp_path, "n1", world, {lever.name: lever}, str)
    assert values(actor) == {"gpudiag_breaker_open": 1.0}


def test_a_reset_breaker_shows_at_once(tmp_path, world, lever):
    Ledger(tmp_path / "actions.db").open_breaker("three did not help", 1.0)
    actor = Actor(CONFIG, tmp_path, "n1", world, {lever.name: lever}, str)
    assert values(actor)["gpudiag_breaker_open"] == 1.0
    assert actor.reset_breaker("ann")
    assert values(actor)["gpudiag_breaker_open"] == 0.0
