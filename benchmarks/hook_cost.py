"""What the hooks add to a training step: blocks of steps with and without, in one process.

    python benchmarks/hook_cost.py [--pairs 40] [--runs 3] [--step-ms 1.0]

Each pair is one block attached and one detached, in alternating order; the figure is the median
of the differences of their mean step, the interval a bootstrap of that median. The loop has what
the hooks touch at every step: a DataLoader without workers, backward, an optimizer's step.
"""

from __future__ import annotations

import argparse
import random
import statistics
import tempfile
import time
from pathlib import Path

import torch
from torch.utils.data import DataLoader, TensorDataset

import gpudiag.probes.torch as gd


class Loop:
    """A step of a linear model on the CPU, filled up with spinning to `step_ms`."""

    def __init__(self, step_ms: float) -> None:
        self._target = step_ms * 1e6
        self._model = torch.nn.Linear(32, 32)
        self._optimizer = torch.optim.SGD(self._model.parameters(), lr=0.01)
        data = TensorDataset(torch.randn(80, 32))
        self._loader = DataLoader(data, batch_size=8)

    def block(self, epochs: int) -> float:
        """Microseconds of a step, less what was spun away: only work is compared."""
        work = steps = 0
        for _ in range(epochs):
            start = time.perf_counter_ns()
            for (batch,) in self._loader:
                self._optimizer.zero_grad()
                self._model(batch).sum().backward()
                self._optimizer.step()
                steps += 1
                end = time.perf_counter_ns()
                work += end - start
                while time.perf_counter_ns() - end < self._target - (end - start):
                    pass
                start = time.perf_counter_ns()
            work += time.perf_counter_ns() - start
        return work / steps / 1e3


def run(loop: Loop, pairs: int, epochs: int, socket: Path) -> tuple[float, float, float]:
    """Median difference and its 95 % interval, microseconds a step."""
    differences = []
    for pair in range(pairs):
        on_first = pair % 2 == 0
        times = {}
        for on in (on_first, not on_first):
            if on:
                gd.attach(socket=socket)
            loop.block(2)
            times[on] = loop.block(epochs)
            if on:
                gd.detach()
        differences.append(times[True] - times[False])
    medians = sorted(statistics.median(random.choices(differences, k=pairs)) for _ in range(2000))
    return statistics.median(differences), medians[50], medians[-51]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=40)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--step-ms", type=float, default=1.0)
    parser.add_argument("--epochs", type=int, default=10, help="of 10 steps, a block")
    told = parser.parse_args()
    torch.set_num_threads(1)
    loop = Loop(told.step_ms)
    loop.block(20)
    with tempfile.TemporaryDirectory() as folder:
        for number in range(told.runs):
            median, low, high = run(loop, told.pairs, told.epochs, Path(folder) / "agent.sock")
            print(f"run {number + 1}: {median:+.1f} us a step (95 % {low:+.1f} to {high:+.1f})")


if __name__ == "__main__":
    main()
