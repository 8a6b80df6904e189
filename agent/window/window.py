"""The rolling history that rules look at: samples and events, asked by metric and labels."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from gpudiag.agent.window.table import Floats, Table
from gpudiag.probes import Event, Labels, Sample, catalog

RAW_SECONDS = 2 * 3600.0
EVENT_SECONDS = 48 * 3600.0
MAX_EVENTS = 20_000


@dataclass(frozen=True, slots=True)
class Series:
    """One series over a span: times (n,) ascending and values (n,), no NaN among them."""

    labels: dict[str, str]
    times: Floats
    values: Floats


@dataclass(frozen=True, slots=True)
class Point:
    """The newest reading of one fresh series."""

    labels: dict[str, str]
    time: float
    value: float


class Window:
    """Samples and events up to `now`, with the queries that rules need.

    `now` is the time of the evaluation, set by whoever owns the window; queries look back from it.
    A query names a metric and label values that must match; it answers with *fresh* series only,
    unless it says otherwise.
    """

    def __init__(self, kept: Iterable[str], *, raw_seconds: float = RAW_SECONDS) -> None:
        """`kept` are the metrics whose history is held; of any other only the newest value is."""
        self.now = 0.0
        self._kept = frozenset(kept)
        self._raw_seconds = raw_seconds
        self._tables: dict[str, Table] = {}
        self._events: deque[Event] = deque(maxlen=MAX_EVENTS)
        self._matches: dict[tuple[object, ...], tuple[int, list[tuple[int, dict[str, str]]]]] = {}

    def add(self, samples: Iterable[Sample], events: Iterable[Event] = ()) -> None:
        """Take one batch. Late, duplicate and out-of-order samples: see `Table.add`."""
        groups: defaultdict[str, list[Sample]] = defaultdict(list)
        for sample in samples:
            groups[sample[0]].append(sample)
        for metric, group in groups.items():
            self._table(metric).add(group)
        for event in events:
            self._insert_event(event)

    def _insert_event(self, event: Event) -> None:
        if not self._events or event.time >= self._events[-1].time:
            self._events.append(event)
            return
        later: list[Event] = []
        while self._events and self._events[-1].time > event.time:
            later.append(self._events.pop())
        self._events.append(event)
        self._events.extend(reversed(later))

    def _table(self, metric: str) -> Table:
        table = self._tables.get(metric)
        if table is None:
            known = catalog.metrics().get(metric)
            counter = known.kind == "counter" if known else metric.endswith("_total")
            keep = self._raw_seconds if metric in self._kept else 0.0
            table = self._tables[metric] = Table(metric, counter=counter, keep=keep)
        return table

    def _columns(
        self, metric: str, match: dict[str, str]
    ) -> Iterator[tuple[Table, int, dict[str, str]]]:
        table = self._tables.get(metric)
        if table is None:
            return
        key = (metric, *match.items())
        found = self._matches.get(key)
        if found is None or found[0] != len(table.keys):
            hits = [
                (c, dict(k)) for c, k in enumerate(table.keys) if match.items() <= dict(k).items()
            ]
            found = self._matches[key] = (len(table.keys), hits)
        for column, labels in found[1]:
            yield table, column, labels

    def latest(self, metric: str, **match: str) -> list[Point]:
        """The newest value of each fresh series."""
        return [
            Point(labels, table.latest_time[c], table.latest[c])
            for table, c, labels in self._columns(metric, match)
            if table.fresh(c, self.now)
        ]

    def value(self, metric: str, **match: str) -> float | None:
        """The newest value of the one fresh series that matches; None where there is none."""
        points = self.latest(metric, **match)
        return points[0].value if points else None

    def seen(self, metric: str, **match: str) -> list[dict[str, str]]:
        """Label sets of every series ever seen, stale ones too."""
        return [labels for _, _, labels in self._columns(metric, match)]

    def series(self, metric: str, seconds: float, **match: str) -> list[Series]:
        """Raw samples of each fresh series in the last `seconds`; counter resets bridged."""
        return [
            self._cut(table, c, labels, self.now - seconds)
            for table, c, labels in self._columns(metric, match)
            if table.fresh(c, self.now)
        ]

    def _cut(self, table: Table, column: int, labels: dict[str, str], since: float) -> Series:
        first, last = np.searchsorted(table.times, (since, np.nextafter(self.now, np.inf)))
        times = table.times[first:last]
        values = table.values[first:last, column]
        there = values == values
        if not there.all():
            times, values = times[there], values[there]
        return Series(labels, times, values)

    def increase(self, metric: str, seconds: float, **match: str) -> list[Point]:
        """How much each fresh counter rose in the last `seconds`, resets bridged.

        Measured between the first and the last sample inside the span, not extrapolated to its
        edges; a series with fewer than two samples there is left out.
        """
        spans = self.series(metric, seconds, **match)
        return [
            Point(s.labels, float(s.times[-1]), float(s.values[-1] - s.values[0]))
            for s in spans
            if len(s.times) >= 2
        ]

    def events(self, seconds: float, source: str = "", kind: str = "") -> list[Event]:
        """Events of the last `seconds`, oldest first; `source` and `kind` (its type) filter."""
        since = self.now - seconds
        found: list[Event] = []
        for event in reversed(self._events):
            if event.time < since:
                break
            if event.time <= self.now and source in ("", event.source) and kind in ("", event.type):
                found.append(event)
        return found[::-1]

    def fresh(self) -> Iterator[tuple[str, Labels, float, float]]:
        """Every fresh series as (metric, labels, time, value), for the exporters."""
        for metric, table in self._tables.items():
            for column, labels in enumerate(table.keys):
                if table.fresh(column, self.now):
                    yield metric, labels, table.latest_time[column], table.latest[column]
