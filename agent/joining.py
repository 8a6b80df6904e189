"""Several foreign series that are one of ours: of processes, of reasons, of old and new names."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from gpudiag.probes import Labels, Sample
from gpudiag.probes.catalog.dialects import Derived, Dialect, Meaning

OURS = "gpudiag_"

JOINED_SECONDS = 60.0
"""A process whose series have not come for so long is gone, and its part with it."""

Place = tuple[tuple[str, str], ...]
"""Server and engine: where figures may be set against each other."""


@dataclass(slots=True)
class _Part:
    """The last of one foreign series; those of the same `whose` tell the same thing again."""

    meaning: Meaning
    whose: tuple[int, Labels]
    time: float
    value: float


class Joiner:
    """Remembers the parts, and what was made of them, of which ratios and products are made."""

    def __init__(self) -> None:
        self._parts: dict[tuple[str, Labels], dict[tuple[str, Labels, int], _Part]] = {}
        self._told: defaultdict[tuple[str, Place], dict[str, Sample]] = defaultdict(dict)

    def clear(self) -> None:
        """Forget everything."""
        self._parts.clear()
        self._told.clear()

    def add(self, dialect: Dialect, meaning: Meaning, ours: Labels, theirs: Sample) -> Sample:
        """Ours from all of theirs that are fresh; within one reading the last of them is whole."""
        parts = self._parts.setdefault((meaning.to, ours), {})
        key = theirs.metric, theirs.labels, meaning.row
        part = parts.get(key)
        if part is None:
            alike = tuple(pair for pair in theirs.labels if pair[0] not in dialect.copies)
            part = parts[key] = _Part(meaning, (meaning.row, alike), 0.0, math.nan)
        part.time, part.value = theirs.time, _figure(meaning, theirs)
        value = part.value if len(parts) == 1 else _joined(parts, meaning, theirs.time)
        sample = Sample(meaning.to, ours, theirs.time, value)
        if dialect.derived:
            self._told[dialect.name, _place(ours)][meaning.to] = sample
        return sample

    def derived(self, dialects: Mapping[str, Dialect], since: float) -> Iterator[Sample]:
        """What is made of two figures, where one of them came since then."""
        for (name, _), told in self._told.items():
            for derived in dialects[name].derived:
                first, second = (told.get(one) for one in derived.of)
                if first and second and max(first.time, second.time) >= since:
                    yield from _made(derived, first, second)


def _figure(meaning: Meaning, theirs: Sample) -> float:
    if not meaning.reads or math.isnan(theirs.value):
        return theirs.value * meaning.factor
    try:
        return float(dict(theirs.labels).get(meaning.reads, "")) * meaning.factor
    except ValueError:
        return math.nan


def _joined(parts: dict[tuple[str, Labels, int], _Part], meaning: Meaning, now: float) -> float:
    for key in [key for key, part in parts.items() if now - part.time > JOINED_SECONDS]:
        del parts[key]
    fresh = [part for part in parts.values() if not math.isnan(part.value)]
    newest: dict[int, int] = {}
    for part in fresh:
        row, order = part.meaning.row, part.meaning.order
        newest[row] = min(order, newest.get(row, order))
    values: dict[tuple[int, Labels], float] = {}
    for part in fresh:
        if part.meaning.order == newest[part.meaning.row]:
            values[part.whose] = max(part.value, values.get(part.whose, part.value))
    if not values:
        return math.nan
    return sum(values.values()) if meaning.kind == "sum" else max(values.values())


def _made(derived: Derived, first: Sample, second: Sample) -> Iterator[Sample]:
    time = max(first.time, second.time)
    if abs(first.time - second.time) > JOINED_SECONDS:
        return
    if derived.how == "product":
        yield Sample(derived.to, first.labels, time, first.value * second.value)
    elif second.value:
        yield Sample(derived.to, first.labels, time, first.value / second.value)


def _place(ours: Labels) -> Place:
    return tuple(pair for pair in ours if pair[0] in ("server", "engine"))
