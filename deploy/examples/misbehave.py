"""What a training run can be told to do wrong, to see how gpudiag tells it.

The flags, which every example has:

    --slow-rank 1 --slow-where backward --slow-ms 50    one rank that all others wait for
    --leak losses|hook|cache|cycle                      memory that grows with every step
    --gc-storm                                          Python's collector stops every few steps
    --leave-collective-at 100                           a rank that does not come to step 100
"""

from __future__ import annotations

import argparse
import functools
import gc
import time
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

LEAK_FLOATS = 250_000
STORM_OBJECTS = 300_000
STORM_EVERY = 10


def add_flags(parser: argparse.ArgumentParser) -> None:
    """The flags above."""
    group = parser.add_argument_group("misbehave")
    group.add_argument("--slow-rank", type=int, help="the rank that is slow")
    group.add_argument("--slow-where", choices=("forward", "backward", "loader"), default="forward")
    group.add_argument("--slow-ms", type=float, default=50.0, help="milliseconds a step")
    group.add_argument("--leak", choices=("losses", "hook", "cache", "cycle"))
    group.add_argument("--gc-storm", action="store_true")
    group.add_argument(
        "--leave-collective-at", type=int, metavar="STEP", help="--slow-rank, else rank 0, stays"
    )


class Misbehaviour:
    """Does what the flags say; without any of them nothing at all."""

    def __init__(self, told: argparse.Namespace, rank: int) -> None:
        self._seconds = told.slow_ms / 1e3
        self._where = told.slow_where if told.slow_rank == rank else ""
        self._leak = told.leak
        self._leaves_at = told.leave_collective_at if rank == (told.slow_rank or 0) else None
        self._history: list[Tensor] = []
        self._storm = [[number] for number in range(STORM_OBJECTS)] if told.gc_storm else []
        # The cycles of `_Cycle` are garbage that only the collector finds.
        if told.leak == "cycle":
            gc.disable()

    def attach(self, layer: nn.Module) -> None:
        """Make `layer` slow, or leak what comes out of it."""
        if self._where == "forward":
            layer.register_forward_hook(self._sleep_in_forward)
        elif self._where == "backward":
            layer.register_forward_hook(self._sleep_in_backward)
        if self._leak == "hook":
            layer.register_forward_hook(self._keep_output)

    def dataset(self, dataset: Dataset[Any], batch: int, workers: int) -> Dataset[Any]:
        """`dataset`, of which a loader gets no more than a batch every `--slow-ms`."""
        if self._where != "loader":
            return dataset
        return _SlowDataset(dataset, self._seconds * max(workers, 1) / batch)

    def step(self, number: int, loss: Tensor) -> None:
        """At the end of step `number` (from 1)."""
        if self._leak == "losses":
            self._history.append(loss)
        elif self._leak == "cache":
            _mask(number)
        elif self._leak == "cycle":
            _Cycle()
        if self._storm and number % STORM_EVERY == 0:
            gc.collect()
        while self._leaves_at is not None and number >= self._leaves_at - 1:
            time.sleep(1.0)

    def _sleep_in_forward(self, _layer: nn.Module, _args: Any, output: Tensor) -> None:
        # Without gradients it is an evaluation or a rollout of many calls a step.
        if output.requires_grad:
            time.sleep(self._seconds)

    def _sleep_in_backward(self, _layer: nn.Module, _args: Any, output: Tensor) -> None:
        if output.requires_grad:
            output.register_hook(lambda _gradient: time.sleep(self._seconds))

    def _keep_output(self, _layer: nn.Module, _args: Any, output: Tensor) -> None:
        self._history.append(output)


@functools.cache
def _mask(step: int) -> Tensor:
    """A cache whose key never comes again."""
    return torch.full((LEAK_FLOATS,), float(step))


class _Cycle:
    """Refers to itself, as a child does that knows its parent."""

    def __init__(self) -> None:
        self.parent = self
        self.buffer = torch.zeros(LEAK_FLOATS)


class _SlowDataset(Dataset[Any]):
    """Takes `seconds` longer for each sample."""

    def __init__(self, dataset: Dataset[Any], seconds: float) -> None:
        self._dataset = dataset
        self._seconds = seconds

    def __len__(self) -> int:
        return len(self._dataset)  # type: ignore[arg-type]

    def __getitem__(self, index: int) -> Any:
        time.sleep(self._seconds)
        return self._dataset[index]
