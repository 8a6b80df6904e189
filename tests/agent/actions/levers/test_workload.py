from __future__ import annotations

import pytest

from gpudiag.agent.actions.contract import Ending
from gpudiag.agent.actions.levers.workload import (
    RESTART_SECONDS,
    RestartContainer,
    Unready,
    Workload,
)
from tests.agent.actions.test_guard import plan


@pytest.fixture
def clock():
    return [1000.0]


@pytest.fixture
def sockets():
    """The inodes of what the server listens on at the moment."""
    return {"1001"}


@pytest.fixture
def workload(tmp_path, clock, sockets):
    return made(tmp_path, clock, sockets)


def made(tmp_path, clock, sockets):
    return Workload(
        tmp_path / "workload.json", lambda: clock[0], "chat", lambda: frozenset(sockets)
    )


def test_it_is_ready_and_alive_unless_told_otherwise(workload):
    assert (workload.why_unready(), workload.why_dead()) == ("", "")


def test_shedding_outlives_the_agent_and_is_taken_back(workload, tmp_path, clock, sockets):
    lever = Unready(workload, floor=lambda: "")
    assert lever.do(plan()).ending is Ending.DONE
    again = made(tmp_path, clock, sockets)
    assert again.why_unready() == "serving-stalled: engine-hung"
    Unready(again, floor=lambda: "").undo(plan())
    assert again.why_unready() == ""


def test_two_plans_must_both_be_taken_back(workload):
    workload.shed("a", "one")
    workload.shed("b", "two")
    workload.admit("a")
    assert workload.why_unready() == "two"


def test_the_floor_keeps_the_last_replica(workload):
    lever = Unready(workload, floor=lambda: "1 of 1 replicas is ready")
    assert lever.unready(plan()) == "1 of 1 replicas is ready"


def test_a_restart_is_asked_for_a_while_and_not_twice(workload, clock):
    lever = RestartContainer(workload)
    lever.do(plan())
    assert workload.why_dead()
    assert lever.unready(plan())
    clock[0] += RESTART_SECONDS
    assert workload.why_dead() == ""


def test_the_new_process_is_alive_at_once(workload, tmp_path, clock, sockets):
    RestartContainer(workload).do(plan())
    assert workload.why_dead()
    sockets.clear()
    assert workload.why_dead() == ""
    sockets.add("1002")
    assert (workload.why_dead(), made(tmp_path, clock, sockets).why_dead()) == ("", "")


def test_an_agent_that_restarts_meanwhile_sees_it_too(workload, tmp_path, clock, sockets):
    RestartContainer(workload).do(plan())
    again = made(tmp_path, clock, sockets)
    assert again.why_dead()
    sockets.discard("1001")
    assert again.why_dead() == ""


def test_where_nothing_listened_the_first_to_come_is_the_new_one(workload, sockets):
    sockets.clear()
    RestartContainer(workload).do(plan())
    assert workload.why_dead()
    sockets.add("1003")
    assert workload.why_dead() == ""


@pytest.mark.parametrize("lever", [RestartContainer, lambda w: Unready(w, floor=lambda: "")])
def test_the_probes_of_this_pod_are_no_lever_for_another(workload, lever):
    assert "not of server=other" in lever(workload).unready(plan(server="other"))


def test_a_spoilt_file_sheds_nothing(tmp_path, clock, sockets):
    (tmp_path / "workload.json").write_text("{")
    assert made(tmp_path, clock, sockets).why_unready() == ""


def test_the_file_is_its_owners_alone(workload, tmp_path):
    workload.shed("a", "one")
    assert (tmp_path / "workload.json").stat().st_mode & 0o777 == 0o600
