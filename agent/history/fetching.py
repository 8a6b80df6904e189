"""One node's series, chunk after chunk, in the exporters' words and without the scrape's labels."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from gpudiag.agent.history import labels as spelling
from gpudiag.agent.history import native
from gpudiag.agent.history.answers import Answer, Series, merged
from gpudiag.agent.history.client import Client, matcher
from gpudiag.agent.history.failing import TooMuch
from gpudiag.agent.history.labels import Target
from gpudiag.agent.history.listing import Chosen, Node, Source
from gpudiag.agent.history.nodes import Places
from gpudiag.agent.recording.timeline import Columns, SeriesKey

SAMPLES_AT_ONCE = 150_000
"""Samples of one answer: about 5 MB of JSON, far below any server's own limit."""

LONGEST = 6 * 3600.0
SHORTEST = 30.0


@dataclass(frozen=True, slots=True)
class Chunk:
    """The series of a node in (start, end], and what was noticed on the way.

    `twice` counts the series of which a second scraper told the same.
    """

    start: float
    end: float
    columns: tuple[Columns, ...]
    warnings: tuple[str, ...] = ()
    twice: int = 0


@dataclass(frozen=True, slots=True)
class Fetcher:
    """Asks for the series of one node; those of others that its selectors meet are left out."""

    client: Client
    node: Node
    places: Places
    chosen: Chosen
    targets: frozenset[Target]
    step: float = 0.0
    """Where positive, one sample of each series in so many seconds, the last."""

    def chunks(self, start: float, end: float, spacing: float) -> Iterator[Chunk]:
        """All between two times; `spacing` is the expected distance of samples in seconds.

        A server that finds it too much is asked for less; raises `ServerError` where that fails.
        """
        rate = max(1, self.node.series) / max(spacing, self.step, 1.0)
        span = self._whole(min(LONGEST, max(SHORTEST, SAMPLES_AT_ONCE / rate)))
        at = start
        while at < end:
            until = min(end, at + span)
            try:
                yield self._chunk(at, until)
            except TooMuch:
                if until - at <= max(SHORTEST, self.step):
                    raise
                span = self._whole(max(SHORTEST, (until - at) / 2.0))
                continue
            at = until

    def _chunk(self, start: float, end: float) -> Chunk:
        answers = [self._answer(source, start, end) for source in self.node.sources]
        series = [one for answer in answers for one in answer.series]
        found, twice = columns(self._mine(series), start, self.targets)
        warnings = merged(text for answer in answers for text in answer.warnings)
        return Chunk(start, end, found, warnings, twice)

    def _whole(self, span: float) -> float:
        return max(1.0, span // self.step) * self.step if self.step else span

    def _answer(self, source: Source, start: float, end: float) -> Answer:
        selector = matcher(source.names, dict(source.where))
        if not self.step:
            return self.client.raw(selector, start, end)
        # Unlike the plain selector it looks no further back than one step: what ended, ended.
        last = f"last_over_time({selector}[{math.ceil(self.step)}s])"
        return self.client.range(last, start + self.step, end, self.step)

    def _mine(self, series: Iterable[Series]) -> Iterator[Series]:
        for one in series:
            key = tuple(sorted(one.labels))
            if self.places.node(key) == self.node.name and self.chosen.takes(one.metric, key):
                yield one
                if one.natives:
                    yield from native.classic(one)


def columns(
    series: Iterable[Series], start: float, targets: frozenset[Target]
) -> tuple[tuple[Columns, ...], int]:
    """One column for each series as its exporter wrote it, from whoever scraped it."""
    told: defaultdict[SeriesKey, list[Series]] = defaultdict(list)
    for one in series:
        labels = spelling.without_scrape_job(one.labels, targets)
        if len(one.times):
            told[one.metric, spelling.own(one.metric, labels)].append(one)
    twice = 0
    found = []
    for key, several in told.items():
        column, overlapping = _one(key, several)
        after = column[1] > start
        if after.any():
            found.append((key, column[1][after], column[2][after]))
        twice += overlapping
    return tuple(found), twice


def _one(key: SeriesKey, several: list[Series]) -> tuple[Columns, bool]:
    """The fullest of them, and of the others what lies outside its time: a changed label."""
    if len(several) == 1:
        return (key, several[0].times, several[0].values), False
    several = sorted(several, key=lambda one: (-len(one.times), one.labels))
    times, values, overlap = several[0].times, several[0].values, False
    for other in several[1:]:
        outside = (other.times < times[0]) | (other.times > times[-1])
        overlap = overlap or not outside.all()
        times = np.concatenate([times, other.times[outside]])
        values = np.concatenate([values, other.values[outside]])
        order = np.argsort(times, kind="stable")
        times, values = times[order], values[order]
    return (key, times, values), overlap
