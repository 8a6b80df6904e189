"""The hot path: when each step ended. All that runs at every step is in `mark`."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Callable

from gpudiag.probes.torch.meter import Value

BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
NAME = "gpudiag_train_step_duration_seconds"


class Steps:
    """Counts steps and their durations; calls `boundary(now)` at the end of one that is due.

    Times are nanoseconds of `clock`. The first step has no beginning that we saw, so it is
    counted and not timed. Set `due` to 0 from any thread to have the next boundary called.
    """

    def __init__(
        self,
        boundary: Callable[[int], object],
        clock: Callable[[], int] = time.perf_counter_ns,
    ) -> None:
        self.count = 0
        self.due = 0
        self.last = 0
        self._boundary = boundary
        self._clock = clock
        self._ends: list[int] = []
        self._start = 0
        self._buckets = [0] * (len(BOUNDS) + 1)
        self._sum = 0.0

    def mark(self) -> None:
        """A step ended now."""
        now = self._clock()
        self._ends.append(now)
        self.count += 1
        if now >= self.due:
            self._boundary(now)

    def done(self) -> int:
        """Timed steps since the last `take`."""
        return len(self._ends) if self._start else len(self._ends) - 1

    def take(self, steps: int) -> list[Value]:
        """Step count, mean and histogram; `steps` is what `done` gave."""
        ends, self._ends = self._ends, []
        if not self._start and ends:
            self._start = ends.pop(0)
        values: list[Value] = [("gpudiag_train_steps_total", {}, float(self.count))]
        if steps <= 0 or not ends:
            return values
        mean = (ends[-1] - self._start) / len(ends) / 1e9
        self._count(ends)
        self._start = self.last = ends[-1]
        return [*values, ("gpudiag_train_step_seconds", {}, mean), *self._histogram()]

    def _count(self, ends: list[int]) -> None:
        buckets, before = self._buckets, self._start
        for end in ends:
            buckets[bisect_left(BOUNDS, (end - before) / 1e9)] += 1
            before = end
        self._sum += (before - self._start) / 1e9

    def _histogram(self) -> list[Value]:
        values: list[Value] = []
        below = 0
        for bound, number in zip((*BOUNDS, float("inf")), self._buckets, strict=True):
            below += number
            label = "+Inf" if bound == float("inf") else str(bound)
            values.append((f"{NAME}_bucket", {"le": label}, float(below)))
        return [*values, (f"{NAME}_sum", {}, self._sum), (f"{NAME}_count", {}, float(below))]
