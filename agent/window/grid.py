"""Readings as a matrix: a row per time, a column per label set, NaN where there is none."""

from __future__ import annotations

import math
from collections.abc import Container

import numpy as np
import numpy.typing as npt

from gpudiag.probes import Labels

Floats = npt.NDArray[np.float64]

_FIRST_ROWS = 32


class Grid:
    """Rows ascend by time and leave the memory in whole blocks of `block` seconds.

    A row is held for `saved_span` seconds, and then on for as long as it was not saved elsewhere,
    but never beyond `span`: what is not saved at all is held for `span`.
    """

    def __init__(self, *, block: float, saved_span: float, span: float) -> None:
        self.block = block
        self.keys: list[Labels] = []
        self.index: dict[Labels, int] = {}
        self.floor = -math.inf
        """Rows before this time were here once and are no longer."""
        self.unsaved = math.inf
        """The oldest time that changed since the grid was last saved."""
        self.cells: Floats = np.empty((_FIRST_ROWS, 1))
        """The matrix with its spare rows and columns; `row` and `column` say where to write."""
        self._times: Floats = np.empty(_FIRST_ROWS)
        self._rows = 0
        self.saved_span = saved_span
        self.span = span

    @property
    def times(self) -> Floats:
        """Row times, shape (rows,); a view that the next write may change."""
        return self._times[: self._rows]

    @property
    def values(self) -> Floats:
        """Values, shape (rows, keys); a view that the next write may change."""
        return self.cells[: self._rows, : len(self.keys)]

    def column(self, key: Labels) -> int:
        """The column of a label set, made when it is new."""
        found = self.index.get(key)
        if found is not None:
            return found
        column = self.index[key] = len(self.keys)
        self.keys.append(key)
        if column >= self.cells.shape[1]:
            wide = np.empty((len(self._times), column + 1 + column // 8))
            wide[: self._rows, :column] = self.cells[: self._rows]
            wide[: self._rows, column:] = np.nan
            self.cells = wide
        return column

    def row(self, time: float, now: float) -> int:
        """The row of a time, made when it is new; -1 for a time that has left the memory."""
        if time < self.floor:
            return -1
        self.unsaved = min(self.unsaved, time)
        rows = self._rows
        if not rows or time > self._times[rows - 1]:
            return self._insert(rows, time, now)
        row = int(np.searchsorted(self.times, time))
        return row if self._times[row] == time else self._insert(row, time, now)

    def _insert(self, row: int, time: float, now: float) -> int:
        if self._rows == len(self._times):
            row -= self._make_room(1, now)
            if time < self.floor:
                return -1
        end = self._rows
        if row < end:
            self._times[row + 1 : end + 1] = self._times[row:end]
            self.cells[row + 1 : end + 1] = self.cells[row:end]
        self._times[row] = time
        self.cells[row] = np.nan
        self._rows = end + 1
        return row

    def replace(self, start: float, times: Floats, values: Floats, now: float) -> None:
        """Put rows in the place of all from `start` on; shapes (n,) and (n, keys)."""
        self._rows = int(np.searchsorted(self.times, start))
        self.unsaved = min(self.unsaved, start)
        if self._rows + len(times) > len(self._times):
            self._make_room(len(times), now)
        end = self._rows + len(times)
        self._times[self._rows : end] = times
        self.cells[self._rows : end] = np.nan
        self.cells[self._rows : end, : values.shape[1]] = values
        self._rows = end

    def blank(self, rows: int) -> Floats:
        """Values for that many rows, shape (rows, keys), all NaN."""
        return np.full((rows, len(self.keys)), np.nan)

    def saved(self) -> None:
        """All that is held was saved: from now on old rows may leave."""
        self.unsaved = math.inf

    def cut_after(self, time: float) -> None:
        """Take back every row later than `time`."""
        self._rows = int(np.searchsorted(self.times, time, side="right"))

    def between(self, since: float, until: float) -> slice:
        """The rows of `since` <= time <= `until`."""
        first = self.times.searchsorted(since)
        return slice(int(first), int(self.times.searchsorted(until, side="right")))

    def _make_room(self, need: int, now: float) -> int:
        """Let old rows go, grow where that frees too little; gives how many rows went."""
        oldest = max(now - self.span, min(now - self.saved_span, self.unsaved))
        floor = oldest // self.block * self.block
        gone = int(np.searchsorted(self.times, floor)) if floor > self.floor else 0
        kept = self._rows - gone
        if gone:
            self.floor = floor
            self._times[:kept] = self._times[gone : self._rows].copy()
            self.cells[:kept] = self.cells[gone : self._rows].copy()
            self._rows = kept
        # An eighth stays spare, so that the moves above come to one per row or less.
        wanted = (kept + need) * 8 // 7 + 1
        if wanted > len(self._times):
            self._grow(max(wanted, len(self._times) * 4 // 3))
        return gone

    def _grow(self, rows: int) -> None:
        # Spare rows are not written before their time: what is not touched takes no memory.
        times, cells = np.empty(rows), np.empty((rows, self.cells.shape[1]))
        times[: self._rows] = self.times
        cells[: self._rows] = self.cells[: self._rows]
        self._times, self.cells = times, cells

    def compact(self, live: Container[Labels]) -> None:
        """Drop the columns without any value, but for those of the `live` label sets."""
        idle = [c for key, c in self.index.items() if key not in live]
        if not idle:
            return
        empty = ~(self.values[:, idle] == self.values[:, idle]).any(axis=0)
        gone = {c for c, without in zip(idle, empty, strict=True) if without}
        if not gone:
            return
        kept = [c for c in range(len(self.keys)) if c not in gone]
        self.cells = np.ascontiguousarray(self.cells[:, kept or [0]])
        self.keys = [self.keys[c] for c in kept]
        self.index = {key: column for column, key in enumerate(self.keys)}
