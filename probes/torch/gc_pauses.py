"""How long Python's cycle collector stopped the process."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable

from gpudiag.probes.torch.meter import Value

# The many collections of the young generation take microseconds and are no pause.
PAUSE_NS = 1_000_000


class GcPauses:
    """Listens to `gc.callbacks`; tells the last pause: a full collection or a millisecond."""

    def __init__(self, clock: Callable[[], int] = time.perf_counter_ns) -> None:
        self._clock = clock
        self._start = 0
        self._last = 0

    def listen(self) -> None:
        """Begin to hear of collections."""
        gc.callbacks.append(self._heard)

    def close(self) -> None:
        """Hear no more."""
        if self._heard in gc.callbacks:
            gc.callbacks.remove(self._heard)

    def take(self, steps: int) -> list[Value]:  # noqa: ARG002 - pauses are rarer than steps
        """Seconds of the last pause; 0 when there was none, which is measured too."""
        last, self._last = self._last, 0
        return [("gpudiag_train_gc_pause_seconds", {}, last / 1e9)]

    def _heard(self, phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            self._start = self._clock()
        elif info["generation"] == 2 or self._clock() - self._start >= PAUSE_NS:
            self._last = self._clock() - self._start
