"""Notices that no step ends any more, from the helper thread."""

from __future__ import annotations

FLOOR = 60.0
TIMES = 10.0


class Watch:
    """Tells a stall once: no step for `TIMES` the longest of before, at least `FLOOR` seconds."""

    def __init__(self) -> None:
        self._count = 0
        self._since = 0.0
        self._longest = 0.0
        self._told = False

    def look(self, count: int, now: float) -> float | None:
        """Seconds without a step when that has just become a stall, else None.

        `count` steps ended by `now` (seconds, monotonic). Before the second step nothing is known
        of how long one takes.
        """
        if count != self._count:
            # The first wait is for the process to come up, compile and warm.
            if self._count:
                self._longest = max(self._longest, now - self._since)
            self._count, self._since, self._told = count, now, False
            return None
        quiet = now - self._since
        if self._told or count < 2 or quiet < max(FLOOR, TIMES * self._longest):
            return None
        self._told = True
        return quiet
