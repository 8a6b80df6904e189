"""How far each rank came behind the first: collective by collective, and put together by step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

Entries = Mapping[int, tuple[int, int | None]]
"""By rank: when it came to a collective (ns) and how long that took it (ns), None if not known."""

LEARNED_STEPS = 4
"""Steps that must pass before their collectives are counted."""

LEARNED_SECONDS = 60.0
MAX_COLLECTIVES = 256


def lags(entries: Entries) -> dict[int, float]:
    """Seconds by which each rank came after the first.

    The duration decides where all have one: a GPU's queue hides when its work really began, yet
    who came last has waited least.
    """
    if _timed(entries):
        longest = max(duration or 0 for _, duration in entries.values())
        return {rank: (longest - (waited or 0)) / 1e9 for rank, (_, waited) in entries.items()}
    first = min(created for created, _ in entries.values())
    return {rank: (created - first) / 1e9 for rank, (created, _) in entries.items()}


def fresh(entries: Entries, before: Entries) -> dict[int, float]:
    """Seconds by which each rank fell behind since the collective `before`.

    After one that all waited for, a lag is new as a whole. Where a rank is here before another
    was there, nobody waited in between and one delay shows twice: only what was added counts.
    """
    late = lags(entries)
    last = max(created for created, _ in before.values())
    if _timed(entries) or all(created >= last for created, _ in entries.values()):
        return late
    earlier = lags(before)
    return {rank: max(lag - earlier.get(rank, 0.0), 0.0) for rank, lag in late.items()}


@dataclass(slots=True)
class StepLags:
    """The collectives of one group in the order of their numbers, cut into steps.

    Where a step begins is not known and need not be: any run of as many collectives as a step has
    holds what a step holds.
    """

    _size: int | None = None
    _anchor: tuple[int, int] | None = None
    _before: tuple[int, Entries] | None = None
    _sums: dict[int, float] = field(default_factory=dict)
    _count: int = 0

    def add(
        self, number: int, entries: Entries, step_seconds: float | None
    ) -> dict[int, float] | None:
        """Seconds a step by rank, each time that a step's collectives are complete.

        Without `step_seconds`, the usual time of a step, each collective counts as a step.
        """
        self._learn(number, entries, step_seconds)
        before, self._before = self._before, (number, entries)
        if self._size is None:
            return None
        follows = before is not None and before[0] + 1 == number
        if not follows:
            self._sums, self._count = {}, 0
        late = fresh(entries, before[1]) if before and follows else lags(entries)
        self._sums = {rank: lag + self._sums.get(rank, 0.0) for rank, lag in late.items()}
        self._count += 1
        if self._count < min(self._size, MAX_COLLECTIVES):
            return None
        scale, sums = self._size / self._count, self._sums
        self._sums, self._count = {}, 0
        return {rank: lag * scale for rank, lag in sums.items()}

    def _learn(self, number: int, entries: Entries, step_seconds: float | None) -> None:
        """How many collectives a step has, by their numbers and times."""
        if not step_seconds:
            self._size = 1
            return
        created = min(created for created, _ in entries.values())
        if self._anchor is None:
            self._anchor, self._size = (number, created), None
            return
        seconds = (created - self._anchor[1]) / 1e9
        if seconds >= LEARNED_STEPS * step_seconds:
            self._size = max(round((number - self._anchor[0]) * step_seconds / seconds), 1)
        if seconds >= max(LEARNED_SECONDS, 2 * LEARNED_STEPS * step_seconds):
            self._anchor = number, created


def _timed(entries: Entries) -> bool:
    return all(duration is not None for _, duration in entries.values())
