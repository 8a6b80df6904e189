"""One metric's recent history: a column per series on times that the series share."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

import numpy as np
import numpy.typing as npt

from gpudiag.probes import Labels, Sample

Floats = npt.NDArray[np.float64]

LATE_SECONDS = 60.0
STALE_SECONDS = 15.0
STALE_SPACINGS = 5.0
_FIRST_ROWS = 64


class Table:
    """Samples of one metric, rows by time and columns by label set, for the last `keep` seconds.

    A counter is stored continued over its resets, so that any two rows differ by the true
    increase; `latest` keeps the value as it was read.
    """

    def __init__(self, metric: str, *, counter: bool, keep: float) -> None:
        self.metric = metric
        self.counter = counter
        self.keep = keep
        self.keys: list[Labels] = []
        self.index: dict[Labels, int] = {}
        self.latest: list[float] = []
        self.latest_time: list[float] = []
        self.spacing: list[float] = []
        self.dropped = 0
        self._carried: list[float] = []
        self._real: list[float] = []
        self._rows = 0
        self._times: Floats = np.empty(_FIRST_ROWS)
        self._values: Floats = np.full((_FIRST_ROWS, 1), np.nan)
        self._newest = -math.inf

    @property
    def times(self) -> Floats:
        """Row times, ascending, shape (rows,)."""
        return self._times[: self._rows]

    @property
    def values(self) -> Floats:
        """Values, shape (rows, series); NaN where a series has none at that time."""
        return self._values[: self._rows, : len(self.keys)]

    def add(self, samples: Iterable[Sample]) -> None:
        """Take samples: a late one is inserted, a later one counted in `dropped`, the last wins."""
        for _, labels, time, value in samples:
            column = self.index.get(labels)
            if column is None:
                column = self._column(labels)
            before = self.latest_time[column]
            if time >= before:
                stored = self._advance(column, before, time, value)
            elif before - time <= LATE_SECONDS:
                stored = self._late_value(column, value)
            else:
                self.dropped += 1
                continue
            if self.keep > 0.0:
                self._values[self._row(time), column] = stored

    def _advance(self, column: int, before: float, time: float, value: float) -> float:
        self.latest[column] = value
        if value == value:
            if self.counter and value < self._real[column]:
                self._carried[column] += self._real[column]
            self._real[column] = value
        if time > before:
            self.latest_time[column] = time
            if before > -math.inf:
                self.spacing[column] = time - before
        return value + self._carried[column] if self.counter else value

    def _late_value(self, column: int, value: float) -> float:
        if not self.counter:
            return value
        carried = self._carried[column]
        # A late reading above the newest one was taken before the counter's last reset.
        return value + carried if value <= self._real[column] else value

    def _column(self, labels: Labels) -> int:
        column = len(self.keys)
        self.keys.append(labels)
        self.index[labels] = column
        self.latest.append(math.nan)
        self.latest_time.append(-math.inf)
        self.spacing.append(0.0)
        self._carried.append(0.0)
        self._real.append(-math.inf)
        if column >= self._values.shape[1]:
            wide = np.full((self._values.shape[0], max(2 * column, 4)), np.nan)
            wide[:, :column] = self._values
            self._values = wide
        return column

    def _row(self, time: float) -> int:
        if time > self._newest:
            return self._append(time)
        row = int(np.searchsorted(self.times, time))
        if row < self._rows and self._times[row] == time:
            return row
        return self._insert(row, time)

    def _append(self, time: float) -> int:
        if self._rows == len(self._times):
            self._make_room(time)
        row = self._rows
        self._times[row] = time
        self._values[row] = np.nan
        self._rows += 1
        self._newest = time
        return row

    def _insert(self, row: int, time: float) -> int:
        if self._rows == len(self._times):
            self._make_room(self._newest)
            row = int(np.searchsorted(self.times, time))
        self._times[row + 1 : self._rows + 1] = self._times[row : self._rows]
        self._values[row + 1 : self._rows + 1] = self._values[row : self._rows]
        self._times[row] = time
        self._values[row] = np.nan
        self._rows += 1
        return row

    def _make_room(self, now: float) -> None:
        first = int(np.searchsorted(self.times, now - self.keep))
        kept = self._rows - first
        if kept > len(self._times) // 2:
            self._times = np.concatenate([self._times, np.empty(len(self._times))])
            spare = np.full_like(self._values, np.nan)
            self._values = np.concatenate([self._values, spare])
        self._times[:kept] = self._times[first : self._rows].copy()
        self._values[:kept] = self._values[first : self._rows].copy()
        self._rows = kept

    def forget(self, gone: Callable[[int], bool]) -> None:
        """Drop the columns for which `gone(column)` holds: series that ended long ago."""
        keep = [c for c in range(len(self.keys)) if not gone(c)]
        if len(keep) == len(self.keys):
            return
        self._values = np.ascontiguousarray(self._values[:, keep or [0]])
        self.keys = [self.keys[c] for c in keep]
        self.index = {labels: column for column, labels in enumerate(self.keys)}
        for name in ("latest", "latest_time", "spacing", "_carried", "_real"):
            column_list: list[float] = getattr(self, name)
            setattr(self, name, [column_list[c] for c in keep])

    def fresh(self, column: int, now: float) -> bool:
        """Whether the series still speaks: no stale marker, and not silent for too long."""
        limit = max(STALE_SECONDS, STALE_SPACINGS * self.spacing[column])
        # Not NaN: the stale marker compares unequal to itself.
        return (
            self.latest[column] == self.latest[column] and now - self.latest_time[column] <= limit
        )
