"""What queries answer with, and the plans that make asking the same again cheap."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from gpudiag.agent.window.grid import Floats
from gpudiag.agent.window.table import Head, Table


class Series(msgspec.Struct, frozen=True, eq=False):
    """One series over a span: times (n,) ascending and values (n,), no NaN among them."""

    labels: dict[str, str]
    times: Floats
    values: Floats


class Point(msgspec.Struct, frozen=True):
    """The newest reading of one fresh series."""

    labels: dict[str, str]
    time: float
    value: float


class Plan:
    """The series of one metric that match a query, found again only when series come or go."""

    def __init__(self, table: Table, match: dict[str, str]) -> None:
        self.table = table
        self._match = match.items()
        self._generation = -1
        self._heads: list[Head] = []
        self._asked: tuple[float, float, int] = (0.0, 0.0, -1)
        self._points: list[Point] = []
        self.minutes: dict[tuple[float, str], tuple[tuple[object, ...], list[Series]]] = {}
        """Answers already made, by span and statistic; they hold until a minute is done."""

    @property
    def heads(self) -> list[Head]:
        """Every series that matches, stale ones too."""
        if self._generation != self.table.generation:
            self._generation = self.table.generation
            self._heads = [h for h in self.table.heads.values() if self._match <= h.named.items()]
            self.minutes.clear()
        return self._heads

    def fresh(self, now: float) -> list[Head]:
        """The series that match and still speak."""
        return [h for h in self.heads if h.value == h.value and now - h.time <= h.limit]

    def points(self, now: float, offset: float) -> list[Point]:
        """The newest readings of the fresh ones, made once per batch and time."""
        asked = (now, offset, self.table.version)
        if self._asked != asked:
            self._asked = asked
            self._points = [Point(h.named, h.time + offset, h.value) for h in self.fresh(now)]
        return self._points


def series(heads: Sequence[Head], times: Floats, values: Floats, *, counter: bool) -> list[Series]:
    """One `Series` per column of values (rows, heads), NaN left out, counter resets bridged."""
    there = values == values
    if there.all():
        if counter:
            values = bridged(values)
        return [Series(h.named, times, values[:, c]) for c, h in enumerate(heads)]
    found = []
    for column, head in enumerate(heads):
        rows = there[:, column]
        alone = values[rows, column]
        found.append(Series(head.named, times[rows], bridged(alone) if counter else alone))
    return found


def bridged(values: Floats) -> Floats:
    """A counter (rows first) continued over its resets: a fall means that it began at 0 again."""
    fell = values[1:] < values[:-1]
    if not fell.any():
        return values
    lost = np.where(fell, values[:-1], 0.0)
    whole = values.copy()
    whole[1:] += np.cumsum(lost, axis=0)
    return whole
