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
def workload(tmp_path, clock):
    return Workload(tmp_path / "workload.json", lambda: clock[0])


def test_it_is_ready_and_alive_unless_told_otherwise(workload):
    assert (workload.why_unready(), workload.why_dead()) == ("", "")


def test_shedding_outlives_the_agent_and_is_taken_back(workload, tmp_path, clock):
    lever = Unready(workload, floor=lambda: "")
    assert lever.do(plan()).ending is Ending.DONE
    again = Workload(tmp_path / "workload.json", lambda: clock[0])
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


def test_a_spoilt_file_sheds_nothing(tmp_path, clock):
    (tmp_path / "workload.json").write_text("{")
    assert Workload(tmp_path / "workload.json", lambda: clock[0]).why_unready() == ""


def test_the_file_is_its_owners_alone(workload, tmp_path):
    workload.shed("a", "one")
    assert (tmp_path / "workload.json").stat().st_mode & 0o777 == 0o600
