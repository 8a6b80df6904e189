"""One metric: the newest reading of each of its series, and their history where it is kept."""

from __future__ import annotations

import math
from collections.abc import Iterable

from gpudiag.agent.window.grid import Grid
from gpudiag.agent.window.minutes import Minutes
from gpudiag.probes import Labels, Sample

LATE_SECONDS = 60.0
STALE_SECONDS = 15.0
STALE_SPACINGS = 5.0
FORGET_SECONDS = 48 * 3600.0
FORGET_UNKEPT_SECONDS = 600.0
MAX_ENDED = 2000
# Where nothing is saved each minute, minutes that nobody asks for are made several at a time.
PATIENT_SECONDS = 300.0

RAW_BLOCK_SECONDS = 300.0
RAW_HELD_SECONDS = 900.0


class Head:
    """A series as it stands: its newest reading, and after what silence it is stale."""

    __slots__ = ("column", "gap", "labels", "limit", "named", "time", "value")

    def __init__(self, labels: Labels) -> None:
        self.labels = labels
        self.named = dict(labels)
        self.time = -math.inf
        self.value = math.nan
        self.gap = math.inf
        self.limit = STALE_SECONDS
        self.column = -1

    def fresh(self, now: float) -> bool:
        """Whether the series still speaks: no stale marker, and not silent for too long."""
        # A stale marker is NaN, which alone is unequal to itself.
        return self.value == self.value and now - self.time <= self.limit

    def space(self, gap: float) -> None:
        """Learn the spacing; one long gap is an outage, only the second in a row is a habit."""
        spacing = min(gap, self.gap)
        self.gap = gap
        self.limit = max(STALE_SECONDS, STALE_SPACINGS * spacing)


class Table:
    """The series of one metric. Values are held as read; queries bridge counter resets."""

    def __init__(self, metric: str, *, counter: bool, raw_seconds: float, trend: bool) -> None:
        """`raw_seconds` 0 keeps no history; `trend` adds one-minute aggregates."""
        self.metric = metric
        self.counter = counter
        self.heads: dict[Labels, Head] = {}
        self.version = 0
        """Changes with each batch: what was answered before may not hold any more."""
        self.generation = 0
        """Changes when series come or go."""
        self.dropped = 0
        self._limit = STALE_SECONDS
        self._young: set[Head] = set()
        self.raw: Grid | None = None
        self.minutes = Minutes() if trend and raw_seconds else None
        if raw_seconds:
            held = min(RAW_HELD_SECONDS, raw_seconds)
            self.raw = Grid(block=RAW_BLOCK_SECONDS, saved_span=held, span=raw_seconds)

    def add(self, samples: Iterable[Sample], now: float, offset: float = 0.0) -> None:
        """Take samples; `offset` is taken off their times.

        One up to 60 s older than the newest of its series is inserted, an older one counted in
        `dropped`; of two at the same time the last stays.
        """
        self.version += 1
        raw, row, row_time = self.raw, -1, math.nan
        for _, labels, stamp, value in samples:
            head = self.heads.get(labels) or self.open(labels)
            time = stamp - offset
            newest = head.time
            if time > newest:
                gap = time - newest
                if gap != head.gap and newest > -math.inf:
                    self._space(head, gap)
                head.time = time
                head.value = value
            elif time == newest:
                head.value = value
            elif not self._late(head, time, value, now):
                self.dropped += 1
                continue
            if raw is None:
                continue
            if time != row_time:
                row, row_time = self._row(raw, time, now), time
            if head.column < 0:
                head.column = raw.column(labels)
            if row >= 0:
                raw.cells[row, head.column] = value

    def _space(self, head: Head, gap: float) -> None:
        head.space(gap)
        self._limit = head.limit
        self._young.discard(head)
        # Series of one metric are read together: those seen once are as patient as the others.
        for young in self._young:
            if young.gap == math.inf:
                young.limit = head.limit

    def _row(self, raw: Grid, time: float, now: float) -> int:
        if self.minutes is not None and time < self.minutes.closed:
            self.minutes.reopen(time)
        return raw.row(time, now)

    def _late(self, head: Head, time: float, value: float, now: float) -> bool:
        if head.time - time <= LATE_SECONDS:
            return True
        if head.time - now <= LATE_SECONDS:
            return False
        # What looks late stands against a reading from the future: that one had a wrong clock.
        head.time, head.value, head.gap = time, value, math.inf
        if self.raw is not None:
            self.raw.cut_after(now + LATE_SECONDS)
        return True

    def open(self, labels: Labels) -> Head:
        """The head of a series, made when it is new."""
        head = self.heads.get(labels)
        if head is None:
            head = self.heads[labels] = Head(labels)
            head.limit = self._limit
            self._young.add(head)
            self.generation += 1
        if self.raw is not None:
            head.column = self.raw.column(labels)
        return head

    def finish(self, now: float) -> None:
        """Aggregate the minutes that have ended."""
        if self.minutes is not None and self.raw is not None:
            self.minutes.close(self.raw, now)

    def tidy(self, now: float, *, finish: bool) -> None:
        """Forget the series that ended long ago; finish minutes, at the latest before they go."""
        if finish or (self.minutes and now - self.minutes.closed > PATIENT_SECONDS):
            self.finish(now)
        ended = [head for head in self.heads.values() if not head.fresh(now)]
        if not ended:
            return
        limit = FORGET_SECONDS if self.raw is not None else FORGET_UNKEPT_SECONDS
        ended.sort(key=lambda head: head.time, reverse=True)
        for at, head in enumerate(ended):
            if at >= MAX_ENDED or now - head.time > limit:
                del self.heads[head.labels]
                self._young.discard(head)
                self.generation += 1
        self._compact({head.labels for head in self.heads.values() if head.fresh(now)})

    def _compact(self, live: set[Labels]) -> None:
        if self.raw is None:
            return
        self.raw.compact(live)
        for head in self.heads.values():
            head.column = self.raw.index.get(head.labels, -1)
        if self.minutes is not None:
            self.minutes.compact(live)
