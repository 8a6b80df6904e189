"""Other exporters' series in our words, as samples enter the window; ours pass untouched."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from gpudiag.probes import Labels, Sample, catalog
from gpudiag.probes.catalog.dialects import Dialect, Meaning, dialects

OURS = "gpudiag_"
OWN_RANK = 0
MAX_SERIES = 50_000
"""Foreign label sets remembered; pods that come and go would grow them for ever."""

JOINED_SECONDS = 60.0
"""A process whose series have not come for so long is gone, and its part with it."""

BELIEVED_SECONDS = 300.0
"""How long a better source may be silent about a GPU before the next one is believed."""


@dataclass(slots=True)
class _Foreign:
    """One foreign series: what it means, and what must be remembered of it."""

    meaning: Meaning
    rank: int
    labels: Labels
    read_at: float = 0.0
    code: int | None = None
    counts: Counter[int] = field(default_factory=Counter)


class Translator:
    """Translates batches; keeps per series only what a change needs to be seen."""

    def __init__(self) -> None:
        self._series: dict[tuple[str, Labels], _Foreign | None] = {}
        self._told_by: dict[tuple[str, str], tuple[int, float]] = {}
        self._parts: dict[tuple[str, Labels], dict[tuple[str, Labels], Sample]] = {}

    def samples(self, samples: Iterable[Sample]) -> list[Sample]:
        """The batch in our words. Names of no known dialect pass as they are."""
        found = list(samples)
        if not self._series and all(sample[0].startswith(OURS) for sample in found):
            return found
        out: list[Sample] = []
        for sample in found:
            out += self._own(sample) if sample[0].startswith(OURS) else self._foreign(sample)
        return out

    def _own(self, sample: Sample) -> Iterable[Sample]:
        uuid = _uuid(sample.labels)
        if uuid:
            self._told_by[sample.metric, uuid] = OWN_RANK, sample.time
        return (sample,)

    def _foreign(self, sample: Sample) -> Iterable[Sample]:
        key = sample.metric, sample.labels
        if key not in self._series:
            if len(self._series) >= MAX_SERIES:
                self._series.clear()
                self._parts.clear()
            self._series[key] = _understood(*key)
        series = self._series[key]
        if series is None:
            return (sample,)
        if not self._believed(series, sample.time):
            return ()
        if series.meaning.kind in ("sum", "max"):
            return (self._joined(series, key, sample),)
        return _translated(series, sample)

    def _joined(self, series: _Foreign, key: tuple[str, Labels], sample: Sample) -> Sample:
        """Ours from all of theirs that are fresh; within one reading the last of them is whole."""
        meaning = series.meaning
        parts = self._parts.setdefault((meaning.to, series.labels), {})
        parts[key] = sample
        fresh = [
            part.value
            for part in parts.values()
            if sample.time - part.time <= JOINED_SECONDS and not math.isnan(part.value)
        ]
        value = (sum(fresh) if meaning.kind == "sum" else max(fresh)) if fresh else math.nan
        return Sample(meaning.to, series.labels, sample.time, value * meaning.factor)

    def _believed(self, series: _Foreign, time: float) -> bool:
        key = series.meaning.to, _uuid(series.labels) or _server(series.labels)
        rank, at = self._told_by.get(key, (series.rank, time))
        if series.rank > rank and time - at <= BELIEVED_SECONDS:
            return False
        self._told_by[key] = series.rank, time
        return True


def _understood(metric: str, labels: Labels) -> _Foreign | None:
    for dialect in dialects():
        meaning = dialect.meanings.get(metric)
        if meaning is not None:
            return _Foreign(meaning, dialect.rank, _labels(dialect, meaning, labels))
    return None


def _labels(dialect: Dialect, meaning: Meaning, labels: Labels) -> Labels:
    names = dialect.labels | {name: name for name in meaning.keep} | dict(meaning.rename)
    ours = {names[name]: value for name, value in labels if name in names and value}
    ours = {name: meaning.values.get((name, value), value) for name, value in ours.items()}
    if "le" in ours and meaning.le != 1.0:
        ours["le"] = f"{float(ours['le']) * meaning.le:g}".replace("inf", "+Inf")
    if dialect.uuid_prefix and not ours.get("uuid", "").startswith(dialect.uuid_prefix):
        ours["uuid"] = dialect.uuid_prefix + ours.get("uuid", "")
    return tuple(sorted((ours | dict(meaning.add)).items()))


def _translated(series: _Foreign, sample: Sample) -> Iterator[Sample]:
    meaning, time = series.meaning, sample.time
    if meaning.kind == "plain":
        yield Sample(meaning.to, series.labels, time, sample.value * meaning.factor)
    elif meaning.kind == "clock_event_bits":
        for bit, event in catalog.clock_events().items():
            active = (
                sample.value if math.isnan(sample.value) else float(bool(int(sample.value) & bit))
            )
            yield Sample(meaning.to, _with(series.labels, "reason", event.name), time, active)
    elif not math.isnan(sample.value):
        yield from _xid_changes(series, sample)
        series.read_at = time


def _xid_changes(series: _Foreign, sample: Sample) -> Iterator[Sample]:
    """The gauge keeps its last code: the first reading may be old, a change is an event."""
    code, before = int(sample.value), series.code
    series.code = code
    if not code or before in (None, code):
        return
    of = _with(series.labels, "xid", str(code))
    # Zero first: a counter that begins above it would look as old as the exporter.
    yield Sample(series.meaning.to, of, series.read_at, float(series.counts[code]))
    series.counts[code] += 1
    yield Sample(series.meaning.to, of, sample.time, float(series.counts[code]))


def _with(labels: Labels, name: str, value: str) -> Labels:
    return tuple(sorted((*labels, (name, value))))


def _server(labels: Labels) -> str:
    return next((value for name, value in labels if name == "server"), "")


def _uuid(labels: Labels) -> str:
    return next((value for name, value in labels if name == "uuid"), "")
