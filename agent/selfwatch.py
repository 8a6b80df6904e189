"""What the agent itself costs, and the budget that it sheds load to keep."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Iterable
from typing import NamedTuple

import psutil

from gpudiag.probes import Sample

CPU_BUDGET = 0.05
"""Share of one core the agent may take over a minute: an on-call tool must not be the load."""

BUDGET_WINDOW = 60.0
MAX_STRETCH = 8.0


class Cost(NamedTuple):
    """CPU seconds used so far and bytes resident, all of the agent's processes together."""

    cpu_seconds: float
    resident_bytes: float


def cost_of(children: Iterable[int]) -> Cost:
    """The cost of this process and the reader children with these process ids."""
    cpu = resident = 0.0
    for process in [psutil.Process(), *map(_process, children)]:
        if process is None:
            continue
        with contextlib.suppress(psutil.Error):
            times = process.cpu_times()
            resident += process.memory_info().rss
            cpu += times.user + times.system
    return Cost(cpu, resident)


def _process(pid: int) -> psutil.Process | None:
    try:
        return psutil.Process(pid)
    except psutil.Error:
        return None


class SelfWatch:
    """Reports the agent's cost, and how far cadences must be stretched to keep the budget."""

    def __init__(self, cost: Callable[[], Cost]) -> None:
        self.stretch = 1.0
        self._cost = cost
        self._spent: deque[tuple[float, float]] = deque()

    def samples(self, now: float) -> list[Sample]:
        """Cost as samples; call it every few seconds, `stretch` follows the last minute."""
        cost = self._cost()
        if self._spent and now < self._spent[-1][0]:
            # The clock was set back: shares across that moment mean nothing.
            self._spent.clear()
        self._spent.append((now, cost.cpu_seconds))
        while now - self._spent[0][0] > BUDGET_WINDOW:
            self._spent.popleft()
        self._adjust()
        return [
            Sample("gpudiag_agent_cpu_seconds_total", (), now, cost.cpu_seconds),
            Sample("gpudiag_agent_resident_bytes", (), now, cost.resident_bytes),
        ]

    def _adjust(self) -> None:
        (then, before), (now, spent) = self._spent[0], self._spent[-1]
        if now - then < BUDGET_WINDOW / 2:
            return
        share = (spent - before) / (now - then)
        if share > CPU_BUDGET:
            self.stretch = min(MAX_STRETCH, self.stretch * 2)
            self._spent.clear()
        elif share < CPU_BUDGET / 4 and self.stretch > 1.0:
            self.stretch = max(1.0, self.stretch / 2)
            self._spent.clear()
