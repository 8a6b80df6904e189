from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gpudiag.probes.torch.captures import Captures
from gpudiag.probes.torch.guard import FAILURES
from gpudiag.probes.torch.oom import MOST, OomObserver
from tests.probes.torch.test_memory import STATS

GIB = 1 << 30
Told = list[tuple[tuple[Any, ...], dict[str, Any]]]


class Allocator:
    """Stands in for the CUDA allocator's side of the features."""

    def __init__(self) -> None:
        self.observers: list[Callable[..., Any]] = []
        self.history: list[Any] = []
        self.record_history = lambda *args: self.history.append(args)

    def oom_observer(self, function: Callable[..., Any]) -> None:
        self.observers.append(function)

    def memory_stats(self) -> dict[str, Any]:
        return STATS

    def snapshot(self) -> dict[str, Any]:
        return {"segments": [], "device_traces": []}


@pytest.fixture
def told() -> Told:
    return []


def observer(folder: Path, told: Told) -> tuple[OomObserver, Allocator]:
    allocator: Any = Allocator()
    captures = Captures(allocator, folder, lambda: 7, lambda: True)
    made = OomObserver(
        allocator,
        captures,
        lambda: {("parameter", "float32", "local"): 4 * GIB},
        lambda *args, **fields: told.append((args, fields)),
    )
    made.attach()
    return made, allocator


def test_it_writes_composition_and_snapshot_before_the_exception(
    tmp_path: Path, told: Told
) -> None:
    _, allocator = observer(tmp_path, told)
    allocator.observers[0](0, 2 * GIB, 80 * GIB, GIB)
    ((kind, line), fields) = told[0]
    assert kind == "oom"
    assert line.startswith("CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total ")
    composition, snapshot = map(Path, fields["files"])
    assert json.loads(composition.read_text())["model"] == {"parameter/float32/local": 4 * GIB}
    assert pickle.loads(snapshot.read_bytes())["segments"] == []


def test_an_unwritable_folder_still_tells(tmp_path: Path, told: Told) -> None:
    (tmp_path / "file").touch()
    _, allocator = observer(tmp_path / "file", told)
    allocator.observers[0](0, 2 * GIB, 80 * GIB, GIB)
    assert told[0][1]["files"] == []
    FAILURES.counts.clear()


def test_a_loop_that_goes_on_after_each_oom_fills_no_disk(tmp_path: Path, told: Told) -> None:
    _, allocator = observer(tmp_path, told)
    for _ in range(20):
        allocator.observers[0](0, 2 * GIB, 80 * GIB, GIB)
    assert len(told) == MOST


def test_it_attaches_once_and_is_mute_when_closed(tmp_path: Path, told: Told) -> None:
    made, allocator = observer(tmp_path, told)
    made.attach()
    made.close()
    assert len(allocator.observers) == 1
    allocator.observers[0](0, 1, 2, 3)
    assert told == []


def test_a_recording_ends_with_a_snapshot_after_its_steps(tmp_path: Path) -> None:
    allocator: Any = Allocator()
    step = SimpleNamespace(now=10)
    captures = Captures(allocator, tmp_path, lambda: step.now, lambda: True)
    captures.record(2)
    assert allocator.history[0][:3] == ("all", "alloc", "python")
    step.now = 11
    assert captures.finished() is None
    step.now = 12
    path = captures.finished()
    assert path is not None
    assert path.name.startswith("steps-")
    assert allocator.history[-1] == (None,)
    assert not captures.recording()
