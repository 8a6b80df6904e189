"""The agent's time: wall-clock epoch seconds for the outside, and a watch for its jumps."""

from __future__ import annotations

import time
from collections.abc import Callable

JUMP_SECONDS = 5.0
REREAD_SECONDS = 60.0


class Clock:
    """Epoch seconds on a monotonic base: cadence and rates do not follow a clock that jumps.

    The offset between the two clocks is read again each minute; when they part by more than
    `JUMP_SECONDS`, `jump` says by how much, once.
    """

    def __init__(
        self,
        wall: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._wall = wall
        self._monotonic = monotonic
        self._offset = wall() - monotonic()
        self._read_at = monotonic()

    def now(self) -> float:
        """Epoch seconds UTC."""
        return self._monotonic() + self._offset

    def monotonic(self) -> float:
        """Seconds that only ever grow, for intervals."""
        return self._monotonic()

    def jump(self) -> float:
        """How far the wall clock has jumped since the last call, in seconds; 0.0 for drift."""
        at = self._monotonic()
        moved = self._wall() - at - self._offset
        if abs(moved) > JUMP_SECONDS:
            self._offset += moved
            return moved
        if at - self._read_at >= REREAD_SECONDS:
            self._offset += moved
            self._read_at = at
        return 0.0
