"""Waits for collectives that go through Python, by group; and what is told of them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from gpudiag.probes.torch.comm import ALONE, ELSEWHERE, NO_RECORDER, NOT_SAMPLED, UNSEEN, CommWait
from gpudiag.probes.torch.cuda_times import Gpu
from gpudiag.probes.torch.groups import group_name, scope


def recorder(enqueued: int | None) -> Any:
    """A flight recorder that has counted so many collectives; None for no recorder."""
    status = {} if enqueued is None else {"0": {"last_enqueued_collective": enqueued}}
    return lambda _: {"pg_status": status}


def comm(enqueued: int | None = 10, seen: int = 10, ddp: Any = None, spent: Any = None) -> CommWait:
    features: Any = SimpleNamespace(
        flight_recorder=recorder(enqueued), nccl_recorder=lambda _: None
    )
    waits: Any = SimpleNamespace(
        seen=seen,
        take=lambda _: {"default": 0.2} if spent is None else spent,
        label=lambda _: "default",
        scopes={"default": "intra_node", "tp": "inter_node", "odd": None},
    )
    return CommWait(features, ddp, waits)


def told(of: CommWait, *, alone: bool = False, gpu: Gpu | None = None) -> dict[str, float]:
    return {
        f"{name}{labels.get('group', '')}": value for name, labels, value in of.take(5, alone, gpu)
    }


WAIT, GROUP = "gpudiag_train_comm_wait_seconds", "gpudiag_train_group_wait_seconds"


def test_waits_of_nearly_all_collectives_are_the_waiting() -> None:
    of = comm()
    assert told(of) == {WAIT: 0.2, f"{GROUP}default": 0.2}
    assert of.source == "work_wait"


@pytest.mark.parametrize(
    ("of", "why"),
    [
        (comm(seen=8), ELSEWHERE),
        (comm(enqueued=None), NO_RECORDER),
    ],
)
def test_a_part_never_passes_for_the_whole(of: CommWait, why: str) -> None:
    assert told(of) == {}
    assert of.source == why


def test_one_rank_waits_for_nobody() -> None:
    of = comm()
    assert told(of, alone=True) == {}
    assert of.source == ALONE


def test_on_a_gpu_only_its_own_events_count() -> None:
    of = comm()
    assert told(of, gpu=Gpu(0.1, 0.1, 0.0, {"tp": 0.03}))[WAIT] == 0.03
    assert of.source == "cuda_events"
    assert told(of, gpu=Gpu(0.1)) == {}
    assert of.source == UNSEEN


def test_what_ddp_logs_and_other_waits_add_up() -> None:
    ddp = SimpleNamespace(take=lambda _: {"default": 0.5})
    assert told(comm(ddp=ddp))[WAIT] == pytest.approx(0.7)


def test_ddp_that_has_logged_nothing_tells_nothing() -> None:
    of = comm(ddp=SimpleNamespace(take=lambda _: None))
    assert told(of) == {}
    assert of.source == NOT_SAMPLED


def test_much_waiting_without_a_group_is_not_shared_out() -> None:
    assert told(comm(spent={"": 0.1, "default": 0.2})) == {WAIT: pytest.approx(0.3)}


def test_a_group_of_unknown_place_is_not_told() -> None:
    assert f"{GROUP}odd" not in told(comm(spent={"odd": 0.2}))


@pytest.mark.parametrize(
    ("number", "description", "name"),
    [("0", "default_pg", "default"), ("3", "undefined", "3"), ("3", "tp", "3:tp"), ("3", "", "3")],
)
def test_names_of_groups(number: str, description: str, name: str) -> None:
    assert group_name(number, description) == name


@pytest.mark.parametrize(
    ("ranks", "size", "where"),
    [
        ([0, 7], "8", "intra_node"),
        ([7, 8], "8", "inter_node"),
        ([0, 1], "", None),
        ([0, 1], "0", None),
        ([0, 1], "x", None),
    ],
)
def test_whether_a_group_lies_in_one_node(ranks: list[int], size: str, where: str | None) -> None:
    assert scope(ranks, {"LOCAL_WORLD_SIZE": size}) == where
