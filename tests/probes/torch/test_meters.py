from __future__ import annotations

import gc
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import gpudiag.probes.torch as gd
from gpudiag.probes.torch.checkpoints import Checkpoints
from gpudiag.probes.torch.combine import combined
from gpudiag.probes.torch.current import CURRENT
from gpudiag.probes.torch.gc_pauses import GcPauses
from gpudiag.probes.torch.meter import Value
from gpudiag.probes.torch.phases import MOST, Phases
from gpudiag.probes.torch.scalars import Scalars
from gpudiag.probes.torch.session import Session

Take = Callable[[int], list[Any]]


def values(take: Take) -> dict[str, float]:
    return {name.removeprefix("gpudiag_"): value for name, _, value in take(1)}


@pytest.fixture
def session() -> Session:
    gd.attach(socket="/nonexistent/agent.sock")
    assert CURRENT.session is not None
    return CURRENT.session


def test_a_full_collection_is_a_pause() -> None:
    pauses = GcPauses()
    pauses.listen()
    gc.collect()
    pauses.close()
    assert values(pauses.take)["train_gc_pause_seconds"] > 0
    gc.collect()
    assert values(pauses.take)["train_gc_pause_seconds"] == 0


def test_short_young_collections_are_none() -> None:
    times = iter([0, 900_000, 2_000_000, 3_500_000, 4_000_000])
    pauses = GcPauses(clock=lambda: next(times))
    for _ in range(2):
        pauses._heard("start", {"generation": 0})
        pauses._heard("stop", {"generation": 0})
    assert values(pauses.take)["train_gc_pause_seconds"] == 0.002


def test_a_phase_is_the_mean_of_its_occurrences() -> None:
    phases = Phases({}, clock=lambda: 10**9)
    phases.ended("rollout", 0)
    phases.ended("rollout", 5 * 10**8)
    assert phases.take(1) == [("gpudiag_train_phase_seconds", {"phase": "rollout"}, 0.75)]
    assert phases.take(1) == []


def test_names_from_a_counter_are_no_flood_of_series() -> None:
    phases = Phases({})
    for number in range(1000):
        phases.ended(f"step {number}", 0)
    assert len(phases.take(1)) == MOST


def test_phases_of_data_and_checkpoint_count_as_such(session: Session) -> None:
    with gd.phase("data"), gd.phase("checkpoint"):
        pass
    assert values(session.loader.take)["train_data_wait_seconds"] > 0
    assert values(session.checkpoints.take)["checkpoint_saves_total"] == 1


def test_files_saved_between_two_steps_are_one_checkpoint(session: Session, tmp_path: Path) -> None:
    for name in ("model", "optimizer"):
        torch.save({"x": torch.zeros(9)}, tmp_path / name)
    gd.step()
    torch.save({"x": 1}, tmp_path / "later")
    found = values(session.checkpoints.take)
    assert found["checkpoint_saves_total"] == 2
    assert found["train_checkpoint_seconds"] > 0


def test_memory_is_no_checkpoint(session: Session) -> None:
    buffer = io.BytesIO()
    torch.save({"x": 1}, buffer)
    buffer.seek(0)
    torch.load(buffer)
    assert values(session.checkpoints.take)["checkpoint_saves_total"] == 0


@pytest.mark.filterwarnings("ignore:torch.distributed is")
def test_a_distributed_save_is_one_checkpoint(session: Session, tmp_path: Path) -> None:
    from torch.distributed import checkpoint

    checkpoint.save({"x": torch.zeros(9)}, checkpoint_id=tmp_path / "dcp")  # type: ignore[attr-defined]
    assert values(session.checkpoints.take)["checkpoint_saves_total"] == 1


def test_what_happened_to_a_checkpoint_is_told(tmp_path: Path) -> None:
    told: list[tuple[str, str]] = []
    checkpoints = Checkpoints(lambda *what: told.append(what), lambda: 3)
    checkpoints.saving(torch.save)({"x": 1}, tmp_path / "a")
    checkpoints.loading(torch.load)(tmp_path / "a")
    with pytest.raises(RuntimeError):
        checkpoints.saving(torch.save)({"x": 1}, str(tmp_path / "no" / "folder"))
    assert [kind for kind, _ in told] == [
        "checkpoint_saved", "checkpoint_loaded", "checkpoint_failed",
    ]  # fmt: skip
    assert values(checkpoints.take)["checkpoint_failures_total"] == 1


def test_a_loss_is_found_in_backward(session: Session) -> None:
    weight = torch.ones(3, requires_grad=True)
    (weight.sum() * 2).backward()
    assert values(session.scalars.take)["train_loss"] == 6


def test_a_scaled_loss_is_found_before_scaling(session: Session) -> None:
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    weight = torch.ones(3, requires_grad=True)
    scaler.scale(weight.sum()).backward()
    assert values(session.scalars.take)["train_loss"] == 3


def test_a_given_loss_goes_before_a_found_one(session: Session) -> None:
    gd.observe(loss=0.25, grad_norm=torch.tensor(2.0))
    torch.ones(3, requires_grad=True).sum().backward()
    found = values(session.scalars.take)
    assert (found["train_loss"], found["train_grad_norm"]) == (0.25, 2.0)


def test_what_is_not_finite_is_counted_and_no_value() -> None:
    scalars = Scalars()
    for loss in (1.0, float("nan"), float("inf")):
        scalars.give("loss", loss)
    found = values(scalars.take)
    assert found == {"train_nonfinite_total": 2}


def test_before_any_loss_nothing_is_said_of_finiteness() -> None:
    assert Scalars().take(1) == []


def test_the_norm_of_clipping_is_found(session: Session) -> None:
    weight = torch.ones(4, requires_grad=True)
    weight.sum().backward()
    torch.nn.utils.clip_grad_norm_([weight], 0.5)
    assert values(session.scalars.take)["train_grad_norm"] == 2.0


STEP: Value = ("gpudiag_train_step_seconds", {}, 1.0)
WAIT: Value = ("gpudiag_train_data_wait_seconds", {}, 0.25)
COMM: Value = ("gpudiag_train_comm_wait_seconds", {}, 0.125)


@pytest.mark.parametrize(
    ("given", "alone", "expected"),
    [
        ([STEP, WAIT], True, [0.75]),
        ([STEP, WAIT, COMM], False, [0.625]),
        ([STEP, WAIT], False, []),
        ([WAIT], True, []),
    ],
)
def test_compute_is_the_rest_where_the_waits_are_known(
    given: list[Any], alone: bool, expected: list[float]
) -> None:
    assert [v for _, _, v in combined(given, 4, 0, 0, alone)] == expected


def test_a_checkpoint_is_not_compute() -> None:
    assert combined([STEP], 4, 2 * 10**9, 0, alone=True)[0][2] == 0.5


def test_without_a_loader_backward_counts_micro_batches() -> None:
    assert combined([], 2, 0, 8, alone=True) == [("gpudiag_train_micro_batches", {}, 4.0)]
