"""The rolling history that rules look at: samples and events, asked by metric and labels."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

import numpy as np

from gpudiag.agent.window import saving
from gpudiag.agent.window.answers import Plan, Point, Series, series
from gpudiag.agent.window.archive import Archive
from gpudiag.agent.window.block import columns
from gpudiag.agent.window.events import Events
from gpudiag.agent.window.grid import Floats
from gpudiag.agent.window.minutes import Stat, minute_of
from gpudiag.agent.window.table import Head, Table
from gpudiag.probes import Event, Labels, Sample, catalog

_COUNTERS = ("_total", "_bucket", "_sum", "_count")
"""How the catalogue's histograms and other exporters' counters end."""

RAW_SECONDS = 2 * 3600.0
TIDY_SECONDS = 60.0
MAX_PLANS = 4096


class Window:
    """Samples and events up to `now`, with the queries that rules need.

    `now` is the time of the evaluation, set by whoever owns the window; queries look back from it
    and old history leaves by it. A query names a metric and label values that must match; it
    answers with *fresh* series only, unless it says otherwise. One thread owns the window.
    """

    def __init__(
        self,
        kept: Iterable[str],
        *,
        trends: Iterable[str] = (),
        raw_seconds: float = RAW_SECONDS,
        archive: Archive | None = None,
    ) -> None:
        """`kept` are the metrics whose history is held; of any other only the newest value is.

        `trends` have one-minute aggregates for 48 h beside their history. With an `archive` the
        older part of both is on disk and saved once a minute: see `restore` and `close`.
        """
        self.now = 0.0
        self._trends = frozenset(trends)
        self._kept = frozenset(kept) | self._trends
        self._raw_seconds = raw_seconds
        # Everything inside runs on a time line of its own, which a clock jump does not bend.
        self._offset = 0.0
        self._archive = archive
        self._tables: dict[str, Table] = {}
        self._events = Events()
        self._plans: dict[tuple[object, ...], Plan | None] = {}
        self._tidied = 0.0
        self._save_due = False

    @property
    def dropped(self) -> int:
        """How many samples came too late to be taken."""
        return sum(table.dropped for table in self._tables.values())

    def add(self, samples: Iterable[Sample], events: Iterable[Event] = ()) -> None:
        """Take one batch. Late, duplicate and out-of-order samples: see `Table.add`."""
        if not 0.0 <= self.now - self._tidied < TIDY_SECONDS:
            self.tidy()
        groups: defaultdict[str, list[Sample]] = defaultdict(list)
        for sample in samples:
            groups[sample[0]].append(sample)
        now = self.now - self._offset
        for metric, group in groups.items():
            table = self._tables.get(metric) or self._table(metric)
            table.add(group, now, self._offset)
        for event in events:
            self._events.add(event)

    def _table(self, metric: str) -> Table:
        known = catalog.metrics().get(metric)
        table = self._tables[metric] = Table(
            metric,
            counter=known.kind == "counter" if known else metric.endswith(_COUNTERS),
            raw_seconds=self._raw_seconds if metric in self._kept else 0.0,
            trend=metric in self._trends,
        )
        self._plans.clear()
        return table

    def restore(self, now: float) -> None:
        """Go on from what the archive holds; called once, before the first batch."""
        self.now = self._tidied = now
        if self._archive is not None:
            self._offset = saving.restore(self._archive, self._table, self._kept, now)
            self._events.restore(saving.events(self._archive, now, self._offset), now)

    def close(self) -> None:
        """Save what the last minute brought and close the archive."""
        self.tidy()
        self.save()
        if self._archive is not None:
            self._archive.close()

    def tidy(self) -> None:
        """Finish minutes and forget what ended long ago; `add` does it each minute of `now`."""
        self._tidied = self.now
        self._save_due = True
        for table in self._tables.values():
            table.tidy(self.now - self._offset, finish=self._archive is not None)
        self._events.expire(self.now)

    def save(self) -> None:
        """Archive what changed, once a minute of `now`; for the thread that adds.

        Readers see no difference: their lock need not be held while a slow disk writes.
        """
        if self._archive is not None and self._save_due:
            self._save_due = False
            now = self.now - self._offset
            saving.save(self._archive, self._tables, self._events, now, self._offset)

    def rebase(self, delta: float) -> None:
        """The clock jumped by `delta` seconds: all that is held happened that much later.

        Ages, rates and what is fresh stay as they were; the times answered follow the new clock.
        The starts of minutes then are those of the old one.
        """
        self._offset += delta
        self.now += delta
        self._tidied += delta
        self._events.shift(delta)

    def _plan(self, metric: str, match: dict[str, str]) -> Plan | None:
        key = (metric, *match.items()) if match else (metric,)
        try:
            return self._plans[key]
        except KeyError:
            pass
        if len(self._plans) >= MAX_PLANS:
            self._plans.clear()
        table = self._tables.get(metric)
        plan = self._plans[key] = Plan(table, match) if table else None
        return plan

    def latest(self, metric: str, **match: str) -> list[Point]:
        """The newest value of each fresh series."""
        plan = self._plan(metric, match)
        return plan.points(self.now - self._offset, self._offset).copy() if plan else []

    def value(self, metric: str, **match: str) -> float | None:
        """The newest value of the one fresh series that matches; None where there is none."""
        plan = self._plan(metric, match)
        points = plan.points(self.now - self._offset, self._offset) if plan else None
        return points[0].value if points else None

    def seen(self, metric: str, **match: str) -> list[dict[str, str]]:
        """Label sets of every series of the last two days (10 min if not kept), stale ones too."""
        plan = self._plan(metric, match)
        return [head.named for head in plan.heads] if plan else []

    def series(self, metric: str, seconds: float, **match: str) -> list[Series]:
        """Raw samples of each fresh series in the last `seconds`; counter resets bridged."""
        plan = self._plan(metric, match)
        now = self.now - self._offset
        heads = plan.fresh(now) if plan else []
        if plan is None or not heads or plan.table.raw is None:
            return []
        times, values = self._read(plan.table, saving.RAW, heads, now - seconds, now)
        return series(heads, times, values, counter=plan.table.counter)

    def between(self, metric: str, since: float, until: float) -> list[Series]:
        """Samples of every series from `since` to `until`, stale ones too, resets as they were.

        What a recording holds; a rule asks for `series`. Of a metric in `trends` each minute's
        lowest value (a counter's last) stands for what is no longer held raw.
        """
        plan = self._plan(metric, {})
        if plan is None or plan.table.raw is None or not plan.heads:
            return []
        first, last = since - self._offset, until - self._offset
        times, values = self._read(plan.table, saving.RAW, plan.heads, first, last)
        if plan.table.minutes is not None:
            stat: Stat = "last" if plan.table.counter else "min"
            old = min(last, float(times[0]) - self._offset) if len(times) else last
            older = self._read(plan.table, stat, plan.heads, first, old - TIDY_SECONDS)
            times, values = np.concatenate([older[0], times]), np.concatenate([older[1], values])
        return [s for s in series(plan.heads, times, values, counter=False) if len(s.times)]

    def minutes(
        self, metric: str, seconds: float, stat: Stat = "mean", **match: str
    ) -> list[Series]:
        """One-minute aggregates of each fresh series of a metric in `trends`.

        The finished minutes of the last `seconds`, stamped with their starts; the open minute is
        left out, a late sample has its minute made anew. For counters ask `last`: its resets are
        bridged.
        """
        plan = self._plan(metric, match)
        now = self.now - self._offset
        heads = plan.fresh(now) if plan else []
        if plan is None or not heads or plan.table.minutes is None:
            return []
        plan.table.finish(now)
        end = minute_of(now)
        asked = (end, self._offset, plan.table.minutes.made, heads)
        known = plan.minutes.get((seconds, stat))
        if known is None or known[0] != asked:
            times, values = self._read(plan.table, stat, heads, end - seconds, now)
            answer = series(heads, times, values, counter=plan.table.counter and stat == "last")
            known = plan.minutes[seconds, stat] = (asked, answer)
        return known[1].copy()

    def _read(
        self, table: Table, kind: str, heads: list[Head], since: float, until: float
    ) -> tuple[Floats, Floats]:
        """Times (rows,) and values (rows, heads) of `since` <= time <= `until`."""
        grid = dict(saving.grids(table))[kind]
        rows = grid.between(since, until)
        wanted = [grid.index.get(head.labels, -1) for head in heads]
        times, values = grid.times[rows], columns(grid.values[rows], wanted)
        if self._archive is not None and since < grid.floor:
            first = max(since, until - grid.span) // grid.block * grid.block
            block = self._archive.block(kind, table.metric, first, grid.floor, self.now)
            old_times, old = block.pick([head.labels for head in heads], since, grid.floor)
            times, values = np.concatenate([old_times, times]), np.concatenate([old, values])
        return times + self._offset, values

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
        return self._events.between(self.now - seconds, self.now, source, kind)

    def fresh(self) -> Iterator[tuple[str, Labels, float, float]]:
        """Every fresh series as (metric, labels, time, value), for the exporters."""
        now = self.now - self._offset
        for metric, table in self._tables.items():
            for head in table.heads.values():
                if head.fresh(now):
                    yield metric, head.labels, head.time + self._offset, head.value
