"""What the hooks add to a step, beside what traceml-ai adds to the same loop.

    pip install traceml-ai==0.5.0
    python benchmarks/beside_traceml.py [--pairs 40] [--runs 3] [--step-ms 1.0]

Blocks of steps with and without the tool alternate; the figure is the median of the differences
of a pair's mean step. CPU time of the training thread stands beside it: that, other programs on
the machine do not change. Both have their other end: an agent, and `traceml run`'s aggregator.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from itertools import chain, repeat
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.check import Check, quantile, show
from tests.running import RunningAgent

MAX_MICROSECONDS = 15.0
EPOCHS = 10  # of 100 steps
"""A block lasts a second or more: both tools send what they measured about once a second."""

TOOLS = ("gpudiag", "traceml")

Around = Callable[[], AbstractContextManager[Any]]


class Loop:
    """A training step on the CPU with loader, backward and optimizer."""

    def __init__(self) -> None:
        import torch
        from torch.utils.data import DataLoader

        torch.set_num_threads(1)
        self.model = torch.nn.Linear(32, 32)
        self._optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)
        self._batches = DataLoader([torch.randn(32) for _ in range(800)], batch_size=8)

    def block(self, around: Around, step_ms: float, epochs: int) -> tuple[float, float]:
        """Mean microseconds of a step and of its CPU, without the spinning between."""
        spun = spun_cpu = steps = 0
        began = end = time.perf_counter_ns()
        began_cpu = time.thread_time_ns()
        for batch in chain.from_iterable(repeat(self._batches, epochs)):
            with around():
                self._optimizer.zero_grad()
                self.model(batch).sum().backward()
                self._optimizer.step()
            steps += 1
            done, done_cpu = time.perf_counter_ns(), time.thread_time_ns()
            while time.perf_counter_ns() - end < step_ms * 1e6:
                pass
            end = time.perf_counter_ns()
            spun += end - done
            spun_cpu += time.thread_time_ns() - done_cpu
        wall = time.perf_counter_ns() - began - spun
        cpu = time.thread_time_ns() - began_cpu - spun_cpu
        return wall / steps / 1e3, cpu / steps / 1e3


class Gpudiag:
    """Attached around each block."""

    def __init__(self, _loop: Loop) -> None:
        import gpudiag.probes.torch as gd

        self.on, self.off = gd.attach, gd.detach

    def around(self) -> AbstractContextManager[Any]:
        return contextlib.nullcontext()


class Traceml:
    """Its patches stay between blocks; what it does in a step is off there."""

    def __init__(self, loop: Loop) -> None:
        import traceml_ai

        traceml_ai.init()
        self.around = lambda: traceml_ai.trace_step(loop.model)

    def on(self) -> None:
        os.environ["TRACEML_DISABLED"] = "0"

    def off(self) -> None:
        os.environ["TRACEML_DISABLED"] = "1"


def differences(tool: str, pairs: int, step_ms: float) -> list[tuple[float, float]]:
    """Microseconds a step that the tool adds, and of CPU, by pair."""
    loop = Loop()
    hooks = Gpudiag(loop) if tool == "gpudiag" else Traceml(loop)
    found = []
    for pair in range(pairs):
        times: dict[bool, tuple[float, float]] = {}
        for on in (pair % 2 == 0, pair % 2 == 1):
            (hooks.on if on else hooks.off)()
            around = hooks.around if on else contextlib.nullcontext
            loop.block(around, step_ms, 1)
            times[on] = loop.block(around, step_ms, EPOCHS)
        (wall, cpu), (wall_off, cpu_off) = times[True], times[False]
        found.append((wall - wall_off, cpu - cpu_off))
    return found


def child(tool: str, options: argparse.Namespace, agent: RunningAgent) -> list[tuple[float, float]]:
    """Each tool in a process of its own, as its users start it."""
    told = ["--tool", tool, "--pairs", str(options.pairs), "--step-ms", str(options.step_ms)]
    out = agent.folder / "differences.json"
    told += ["--out", str(out)]
    command = [sys.executable, __file__, *told]
    if tool == "traceml":
        command = [sys.executable, "-m", "traceml_ai.launcher.cli", "run"]
        command += ["--logs-dir", str(agent.folder / "logs"), __file__, "--args", *told]
    environment = {**os.environ, "GPUDIAG_SOCKET": str(agent.socket)}
    with (agent.folder / "output").open("wb") as output:
        subprocess.run(command, env=environment, stdout=output, stderr=output, check=True)
    return [(wall, cpu) for wall, cpu in json.loads(out.read_text())]


def measure(options: argparse.Namespace) -> list[Check]:
    checks = []
    with tempfile.TemporaryDirectory() as folder:
        agent = RunningAgent(Path(folder)).start()
        for number in range(1, options.runs + 1):
            for tool in TOOLS:
                walls, cpus = zip(*child(tool, options, agent), strict=True)
                quarters = f"{quantile(walls, 0.25):.1f} to {quantile(walls, 0.75):.1f}"
                note = f"half of the pairs {quarters}; CPU {statistics.median(cpus):.1f}"
                limit = MAX_MICROSECONDS if tool == "gpudiag" else None
                median = statistics.median(walls)
                checks.append(Check(f"{tool}, run {number}", median, "us a step", limit, note))
        agent.stop()
    return checks


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=40)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--step-ms", type=float, default=1.0)
    parser.add_argument("--tool", choices=TOOLS, help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.tool:
        found = differences(options.tool, options.pairs, options.step_ms)
        options.out.write_text(json.dumps(found))
        return 0
    checks = measure(options)
    show(f"what is added to a step of {options.step_ms:g} ms", checks)
    return 0 if all(check.ok for check in checks) else 1


if __name__ == "__main__":
    sys.exit(main())
