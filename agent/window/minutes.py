"""One-minute aggregates of one metric: min, mean, max and last of each finished minute."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from gpudiag.agent.window.grid import Floats, Grid
from gpudiag.probes import Labels

Stat = Literal["min", "mean", "max", "last"]

STATS: tuple[Stat, ...] = ("min", "mean", "max", "last")
MINUTE = 60.0
BLOCK_SECONDS = 3600.0
HELD_SECONDS = 2 * 3600.0
SPAN_SECONDS = 48 * 3600.0


class Minutes:
    """A grid per statistic, rows stamped with the start of their minute.

    The open minute has no row; a sample that comes late has its minute made anew.
    """

    def __init__(self) -> None:
        self.grids = {stat: _grid() for stat in STATS}
        self.closed = -math.inf
        """Minutes before this time are done."""
        self.made = 0
        """Changes when minutes were made, for the first time or anew."""

    def reopen(self, time: float) -> None:
        """A sample came for a time that was already done."""
        self.closed = min(self.closed, minute_of(time))

    def close(self, raw: Grid, now: float) -> None:
        """Aggregate the raw rows of every minute that has ended by `now`."""
        end = minute_of(now)
        start = max(self.closed, raw.floor)
        if end <= start:
            return
        first, last = (int(n) for n in np.searchsorted(raw.times, (start, end)))
        self.closed = end
        self.made += 1
        if first == last:
            return
        minutes = raw.times[first:last] // MINUTE * MINUTE
        edges = np.concatenate([[0], np.flatnonzero(np.diff(minutes)) + 1])
        for stat, made in aggregate(raw.values[first:last], edges).items():
            self._put(stat, minutes[edges], raw.keys, made, now)

    def _put(self, stat: Stat, times: Floats, keys: list[Labels], made: Floats, now: float) -> None:
        grid = self.grids[stat]
        columns = [grid.column(key) for key in keys]
        values = grid.blank(len(times))
        values[:, columns] = made
        grid.replace(float(times[0]), times, values, now)

    def compact(self, live: set[Labels]) -> None:
        """Drop the columns of series that ended and have no minute left here."""
        for grid in self.grids.values():
            grid.compact(live)


def minute_of(time: float) -> float:
    """The start of the minute that a time lies in."""
    return time // MINUTE * MINUTE


def aggregate(values: Floats, edges: np.typing.NDArray[np.intp]) -> dict[Stat, Floats]:
    """Each statistic of the row groups that begin at `edges`; (groups, keys), NaN for none."""
    there = values == values
    counts = np.add.reduceat(there, edges, axis=0, dtype=np.float64)
    counts[counts == 0.0] = np.nan
    newest = np.where(there, np.arange(len(values))[:, None], -1)
    picked = np.maximum.reduceat(newest, edges, axis=0)
    last = np.take_along_axis(values, np.maximum(picked, 0), axis=0)
    return {
        "min": np.fmin.reduceat(values, edges, axis=0),
        "mean": np.add.reduceat(np.where(there, values, 0.0), edges, axis=0) / counts,
        "max": np.fmax.reduceat(values, edges, axis=0),
        "last": np.where(picked >= 0, last, np.nan),
    }


def _grid() -> Grid:
    return Grid(block=BLOCK_SECONDS, saved_span=HELD_SECONDS, span=SPAN_SECONDS)
