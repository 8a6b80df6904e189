"""What the hooks add to a training step: blocks of steps with and without, in one process.

    python benchmarks/hook_cost.py [--pairs 40] [--runs 3] [--step-ms 1.0] [--work]

Each pair is one block attached and one detached, in alternating order; the figure is the median
of the pairs' differences with a bootstrapped 95 % interval. By medians of a block's steps it
holds on a busy machine, by means it has what happens once a second in it. The loop has what the
hooks touch at every step: a DataLoader without workers, backward, an optimizer's step.

By default a step is filled up by spinning, which is taken out of its time: that finds a few
microseconds. With `--work` it is filled by matrix products and timed whole, as its user would
see it: a change is measurable there where the interval leaves zero out.
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
    """A step of a linear model on the CPU, filled up to `step_ms` by spinning or by work."""

    def __init__(self, step_ms: float, work: bool) -> None:
        self._target = step_ms * 1e6
        self._matrix = torch.randn(512, 512)
        self._products = self._enough() if work else 0
        self._model = torch.nn.Linear(32, 32)
        self._optimizer = torch.optim.SGD(self._model.parameters(), lr=0.01)
        data = TensorDataset(torch.randn(80, 32))
        self._loader = DataLoader(data, batch_size=8)

    def block(self, epochs: int) -> tuple[float, float]:
        """Microseconds of a step, less what was spun away: median and mean."""
        steps = []
        for _ in range(epochs):
            start = time.perf_counter_ns()
            for (batch,) in self._loader:
                self._optimizer.zero_grad()
                self._model(batch).sum().backward()
                self._optimizer.step()
                for _ in range(self._products):
                    self._matrix @ self._matrix
                end = time.perf_counter_ns()
                steps.append((end - start) / 1e3)
                while not self._products and time.perf_counter_ns() < start + self._target:
                    pass
                start = time.perf_counter_ns()
        return statistics.median(steps), statistics.mean(steps)

    def _enough(self) -> int:
        """Products that take as long as the step is to last."""
        times = []
        for _ in range(50):
            start = time.perf_counter_ns()
            self._matrix @ self._matrix
            times.append(time.perf_counter_ns() - start)
        return max(1, round(self._target / statistics.median(times)))


def run(loop: Loop, pairs: int, epochs: int, socket: Path) -> list[tuple[float, float]]:
    """Differences of the pairs, microseconds a step: of the blocks' medians and means."""
    differences = []
    for pair in range(pairs):
        times = {}
        for on in (pair % 2 == 0, pair % 2 == 1):
            if on:
                gd.attach(socket=socket)
            loop.block(2)
            times[on] = loop.block(epochs)
            if on:
                gd.detach()
        differences.append((times[True][0] - times[False][0], times[True][1] - times[False][1]))
    return differences


def told(differences: list[float]) -> str:
    """Their median with its 95 % interval."""
    size = len(differences)
    medians = sorted(statistics.median(random.choices(differences, k=size)) for _ in range(2000))
    return f"{statistics.median(differences):+.1f} us ({medians[50]:+.1f} to {medians[-51]:+.1f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=40)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--step-ms", type=float, default=1.0)
    parser.add_argument("--epochs", type=int, default=10, help="of 10 steps, a block")
    parser.add_argument("--work", action="store_true", help="fill the step with matrix products")
    given = parser.parse_args()
    torch.set_num_threads(1)
    loop = Loop(given.step_ms, given.work)
    loop.block(20)
    with tempfile.TemporaryDirectory() as folder:
        for number in range(given.runs):
            pairs = run(loop, given.pairs, given.epochs, Path(folder) / "agent.sock")
            by_median, by_mean = (told(list(column)) for column in zip(*pairs, strict=True))
            print(f"run {number + 1}: {by_median} a step by medians, {by_mean} by means")


if __name__ == "__main__":
    main()
