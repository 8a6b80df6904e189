from __future__ import annotations

import gc
from types import SimpleNamespace
from typing import Any

import pytest

from gpudiag.probes.torch.arrivals import MOST, Arrivals, _period

DEFAULT, TENSOR = ("0", "default_pg"), ("3", "tensor")


def entry(sequence: int, group: tuple[str, str] = DEFAULT, **more: Any) -> dict[str, Any]:
    pg_id = 0 if group is DEFAULT else 1
    return {
        "process_group": group, "pg_id": pg_id, "collective_seq_id": sequence,
        "time_created_ns": sequence * 1000, "is_p2p": False, **more,
    }  # fmt: skip


def arrivals(*dumps: dict[str, Any]) -> Arrivals:
    answers = iter(dumps)
    features: Any = SimpleNamespace(
        flight_recorder=lambda _: next(answers, None), nccl_recorder=lambda _: None
    )
    return Arrivals(features)


def test_each_collective_is_told_once() -> None:
    made = arrivals({"entries": [entry(1), entry(2)]}, {"entries": [entry(2), entry(3)]})
    assert made.entries(0.0) == {"default": [(1, 1000, None), (2, 2000, None)]}
    assert made.entries(1e9) == {"default": [(3, 3000, None)]}


def test_groups_are_apart_and_point_to_point_is_left_out() -> None:
    made = arrivals({"entries": [entry(1), entry(5, TENSOR), entry(9, is_p2p=True)]})
    assert {g: len(e) for g, e in made.entries(0.0).items()} == {"default": 1, "3:tensor": 1}


def test_durations_of_nccl_are_nanoseconds() -> None:
    made = arrivals({"entries": [entry(1, duration_ms=1.5)]})
    assert made.entries(0.0)["default"] == [(1, 1000, 1_500_000)]


def test_only_the_newest_go_into_a_packet() -> None:
    made = arrivals({"entries": [entry(n) for n in range(1, 500)]})
    found = made.entries(0.0)["default"]
    assert (len(found), found[-1][0]) == (MOST, 499)


def test_it_is_not_asked_again_within_a_second() -> None:
    made = arrivals({"entries": [entry(1)]}, {"entries": [entry(2)]})
    made.entries(0.0)
    assert made.entries(0.5) == {}


def test_sequences_go_by_the_groups_name() -> None:
    status = {"last_enqueued_collective": 7, "last_completed_collective": 6}
    content = {"pg_status": {"0": status, "1": status, "2": status}}
    made = arrivals({"entries": [entry(1, TENSOR)]}, content)
    made.entries(0.0)
    told = {(d["group"], d["state"]): v for _, d, v in made.sequences()}
    assert told == {
        ("default", "enqueued"): 7, ("default", "completed"): 6,
        ("3:tensor", "enqueued"): 7, ("3:tensor", "completed"): 6,
    }  # fmt: skip


def test_a_number_that_was_never_reached_is_absent() -> None:
    status = {"last_enqueued_collective": 1, "last_completed_collective": -1}
    made = arrivals({"pg_status": {"0": status}})
    assert [d["state"] for _, d, _ in made.sequences()] == ["enqueued"]


def test_without_a_recorder_there_is_nothing() -> None:
    assert arrivals().entries(0.0) == {}
    assert arrivals().sequences() == []


def test_ranks_that_started_apart_look_at_the_same_moments() -> None:
    moments = []
    for began in (100.2, 101.7):
        made = arrivals(*({"entries": [entry(n)]} for n in range(1, 9)))
        times = [began, *(float(second) for second in range(102, 107))]
        moments.append([now for now in times if made.entries(now)])
    assert moments[0][1:] == moments[1][1:] == [102.0, 103.0, 104.0, 105.0, 106.0]


@pytest.mark.parametrize(("cost", "period"), [(0.1, 1.0), (1.5, 2.0), (9.0, 16.0), (99.0, 16.0)])
def test_what_costs_more_is_asked_for_more_seldom(cost: float, period: float) -> None:
    assert _period(cost) == period


def test_the_collector_rests_meanwhile_and_is_left_as_it_was() -> None:
    seen = []
    made = arrivals()
    made._dumps = (lambda _: seen.append(gc.isenabled()),)  # type: ignore[assignment]
    made.entries(0.0)
    assert (seen, gc.isenabled()) == ([False], True)


def test_with_another_measure_it_is_asked_for_seldom() -> None:
    made = arrivals({"entries": [entry(1)]}, {"entries": [entry(2)]}, {"entries": [entry(3)]})
    assert [bool(made.entries(t, rare=True)) for t in (0.0, 8.0, 16.0)] == [True, False, True]
