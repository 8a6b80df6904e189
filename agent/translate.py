"""Other exporters' series in our words, as samples enter the window; ours pass untouched."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from gpudiag.agent.joining import JOINED_SECONDS, OURS, Joiner
from gpudiag.probes import Labels, Sample, catalog
from gpudiag.probes.catalog.dialects import Dialect, Meaning, dialects

OWN_RANK = 0
MAX_SERIES = 50_000
"""Foreign label sets remembered; pods that come and go would grow them for ever."""

BELIEVED_SECONDS = 300.0
"""How long a better source may be silent about a GPU or a server before the next is believed."""


@dataclass(slots=True)
class _Foreign:
    """One foreign series: what it means, and what must be remembered of it."""

    dialect: Dialect
    meaning: Meaning
    labels: Labels
    read_at: float = math.nan
    count: float = math.nan


@dataclass(slots=True)
class _LastXid:
    """What a gauge of the last XID held; one for each GPU, whatever labels the gauge has then."""

    read_at: float = 0.0
    code: int | None = None
    counts: Counter[int] = field(default_factory=Counter)


class Translator:
    """Translates batches; keeps per series only what a change needs to be seen."""

    def __init__(self) -> None:
        self._dialects = {dialect.name: dialect for dialect in dialects()}
        self._of = {name: dialect for dialect in reversed(dialects()) for name in dialect.meanings}
        self._better = frozenset(
            name
            for dialect in dialects()
            for meanings in dialect.meanings.values()
            for meaning in meanings
            for name in meaning.unless
        )
        self._series: dict[tuple[str, Labels], tuple[_Foreign, ...] | None] = {}
        self._told_by: dict[tuple[str, str], tuple[int, float]] = {}
        self._seen: dict[tuple[str, str], float] = {}
        self._xids: dict[Labels, _LastXid] = {}
        self._joiner = Joiner()

    def samples(self, samples: Iterable[Sample]) -> list[Sample]:
        """The batch in our words. Names of no known dialect pass as they are."""
        found = list(samples)
        if not self._series and all(sample[0].startswith(OURS) for sample in found):
            return found
        self._note_better(found)
        if any((sample.metric, sample.labels) not in self._series for sample in found):
            # At first sight whom to believe is not known yet: the better sources go first.
            found.sort(key=self._rank)
        out: list[Sample] = []
        for sample in found:
            out += self._own(sample) if sample[0].startswith(OURS) else self._foreign(sample)
        if found:
            earliest = min(sample.time for sample in found)
            out += self._joiner.derived(self._dialects, earliest)
        return out

    def _rank(self, sample: Sample) -> int:
        dialect = self._of.get(sample.metric)
        return dialect.rank if dialect else OWN_RANK

    def _note_better(self, samples: list[Sample]) -> None:
        """Names that put others aside, wherever they stand in the batch."""
        for metric, pairs, time, _ in samples:
            if metric in self._better:
                self._seen[metric, _named(pairs, "server")] = time

    def _own(self, sample: Sample) -> Iterable[Sample]:
        # Of a host there is one: what has no uuid is told of it.
        self._told_by[sample.metric, _named(sample.labels, "uuid")] = OWN_RANK, sample.time
        return (sample,)

    def _foreign(self, sample: Sample) -> Iterable[Sample]:
        key = sample.metric, sample.labels
        if key not in self._series:
            if len(self._series) >= MAX_SERIES:
                self._series.clear()
                self._seen.clear()
                self._xids.clear()
                self._joiner.clear()
            self._series[key] = _understood(self._of.get(sample.metric), *key)
        meant = self._series[key]
        if meant is None:
            return (sample,)
        return [ours for series in meant for ours in self._meant(series, sample)]

    def _meant(self, series: _Foreign, sample: Sample) -> Iterable[Sample]:
        # An exporter's division by nothing is no measurement; NaN is: it ends a series.
        if math.isinf(sample.value):
            return ()
        if not self._believed(series, sample) or self._put_aside(series.meaning, sample):
            return ()
        if series.meaning.kind in ("sum", "max"):
            ours = self._joiner.add(series.dialect, series.meaning, series.labels, sample)
            return (ours,) if ours.metric.startswith(OURS) else ()
        if series.meaning.kind == "last_xid":
            return self._xid_changes(series, sample)
        return _translated(series, sample)

    def _xid_changes(self, series: _Foreign, sample: Sample) -> Iterator[Sample]:
        """The gauge keeps its last code: the first reading may be old, a change is an event."""
        if math.isnan(sample.value):
            return
        # With the code among its labels, as newer exporters write it, each is a series of its own.
        last = self._xids.setdefault(series.labels, _LastXid())
        code, before = int(sample.value), last.code
        if not code and sample.time <= last.read_at:
            # The series that ended when the code changed, read beside its successor.
            return
        read_at, last.read_at = last.read_at, sample.time
        last.code = code
        if not code or before in (None, code):
            return
        of = _with(series.labels, "xid", str(code))
        # Zero first: a counter that begins above it would look as old as the exporter.
        yield Sample(series.meaning.to, of, read_at, float(last.counts[code]))
        last.counts[code] += 1
        yield Sample(series.meaning.to, of, sample.time, float(last.counts[code]))

    def _put_aside(self, meaning: Meaning, sample: Sample) -> bool:
        server = _named(sample.labels, "server") if meaning.unless else ""
        return any(
            sample.time - self._seen.get((name, server), -math.inf) <= JOINED_SECONDS
            for name in meaning.unless
        )

    def _believed(self, series: _Foreign, sample: Sample) -> bool:
        of = _named(series.labels, "uuid") or _named(series.labels, "server")
        key, own, time = (series.meaning.to, of), series.dialect.rank, sample.time
        rank, at = self._told_by.get(key, (own, time))
        if own > rank and time - at <= BELIEVED_SECONDS:
            return False
        self._told_by[key] = own, time
        return True


def _understood(
    dialect: Dialect | None, metric: str, labels: Labels
) -> tuple[_Foreign, ...] | None:
    """What a series means, which may be several things or nothing; None where nobody knows it."""
    if dialect is None:
        return None
    named = dict(labels)
    return tuple(
        _Foreign(dialect, meaning, ours)
        for meaning in dialect.meanings[metric]
        if all(named.get(name) == value for name, value in meaning.where)
        if (ours := _labels(dialect, meaning, named)) is not None
    )


def _labels(dialect: Dialect, meaning: Meaning, theirs: dict[str, str]) -> Labels | None:
    """Ours of theirs; None where a label's value says that the series is not meant."""
    names = {**dialect.labels, **{name: name for name in meaning.keep}, **dict(meaning.rename)}
    ours = {names[name]: value for name, value in theirs.items() if name in names and value}
    worded = _worded(meaning, ours)
    if worded is None:
        return None
    ours = worded
    identity = next((theirs[name] for name in dialect.identity if theirs.get(name)), "")
    if identity:
        ours["server"] = identity
    if meaning.to.endswith("_bucket"):
        bound = _bound(ours.get("le", ""), meaning.le)
        if bound is None:
            return None
        ours["le"] = bound
    if dialect.uuid_prefix and not ours.get("uuid", "").startswith(dialect.uuid_prefix):
        ours["uuid"] = dialect.uuid_prefix + ours.get("uuid", "")
    return tuple(sorted((ours | dict(meaning.add)).items()))


def _bound(le: str, factor: float) -> str | None:
    """A bucket's bound in our unit; None where a damaged page has no number there."""
    try:
        bound = float(le) * factor
    except ValueError:
        return None
    if math.isnan(bound):
        return None
    return le if factor == 1.0 else f"{bound:g}".replace("inf", "+Inf")


def _worded(meaning: Meaning, ours: dict[str, str]) -> dict[str, str] | None:
    for label in {label for label, _ in meaning.values}:
        theirs = ours.get(label, "")
        word = meaning.values.get((label, theirs)) or meaning.values.get((label, "*"))
        if word is None:
            return None
        ours[label] = word
    return ours


def _translated(series: _Foreign, sample: Sample) -> Iterator[Sample]:
    meaning, time = series.meaning, sample.time
    if meaning.kind == "plain":
        yield Sample(meaning.to, series.labels, time, sample.value * meaning.factor)
    elif meaning.kind == "rate":
        yield from _rate(series, sample)
    elif meaning.kind == "clock_event_bits":
        for bit, event in catalog.clock_events().items():
            active = (
                sample.value if math.isnan(sample.value) else float(bool(int(sample.value) & bit))
            )
            yield Sample(meaning.to, _with(series.labels, "reason", event.name), time, active)


def _rate(series: _Foreign, sample: Sample) -> Iterator[Sample]:
    """The increase a second since the last reading; nothing where the counter began anew."""
    seconds, more = sample.time - series.read_at, sample.value - series.count
    series.read_at, series.count = sample.time, sample.value
    if seconds > 0.0 and more >= 0.0:
        rate = more / seconds * series.meaning.factor
        yield Sample(series.meaning.to, series.labels, sample.time, rate)
    elif math.isnan(sample.value):
        yield Sample(series.meaning.to, series.labels, sample.time, math.nan)


def _with(labels: Labels, name: str, value: str) -> Labels:
    return tuple(sorted((*labels, (name, value))))


def _named(labels: Labels, name: str) -> str:
    return next((value for label, value in labels if label == name), "")
