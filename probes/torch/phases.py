"""Named parts of a step: `with phase("rollout")`."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType
from typing import Any

from gpudiag.probes.torch.cuda_times import CudaTimes
from gpudiag.probes.torch.meter import Value

# A name comes from code, yet code may build it from a counter; a series each would be a flood.
MOST = 32


class Phases:
    """Mean duration of the occurrences of each phase that ended since the last `take`.

    `also` names phases that mean something else as well: they are told their nanoseconds.
    """

    def __init__(
        self,
        also: dict[str, Callable[[int], None]],
        clock: Callable[[], int] = time.perf_counter_ns,
    ) -> None:
        self._also = also
        self._clock = clock
        self._spent: dict[str, list[int]] = {}

    def ended(self, name: str, start: int) -> None:
        """A phase that began at `start` (nanoseconds of the clock) ended now."""
        spent = self._clock() - start
        if name in self._spent or len(self._spent) < MOST:
            total = self._spent.setdefault(name, [0, 0])
            total[0] += spent
            total[1] += 1
        if name in self._also:
            self._also[name](spent)

    def take(self, steps: int) -> list[Value]:  # noqa: ARG002 - a phase may span many steps
        """Seconds of an occurrence, by phase."""
        spent, self._spent = self._spent, {}
        return [
            ("gpudiag_train_phase_seconds", {"phase": name}, total / number / 1e9)
            for name, (total, number) in spent.items()
        ]


class Phase:
    """The context manager that `gd.phase(name)` gives; without hooks it does nothing.

    `cuda` looks whether the GPU had work meanwhile.
    """

    __slots__ = ("_cuda", "_ended", "_name", "_span", "_start")

    def __init__(
        self,
        name: str,
        ended: Callable[[str, int], object] | None,
        cuda: CudaTimes | None = None,
    ) -> None:
        self._name = name
        self._ended = ended
        self._cuda = cuda
        self._span: Any = None
        self._start = 0

    def __enter__(self) -> None:
        if self._cuda is not None:
            self._span = self._cuda.before(False)
        self._start = time.perf_counter_ns()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._ended is not None:
            self._ended(self._name, self._start)
        if self._cuda is not None:
            self._cuda.after(self._span, "data")
