"""A snapshot as metric families in the catalogue's order: what every metric exporter walks over."""

from __future__ import annotations

import platform
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from gpudiag.agent.exporters import told
from gpudiag.agent.exporters.view import Reading, Snapshot
from gpudiag.probes import Labels, labels
from gpudiag.probes.catalog import Metric, metrics

_PARTS = ("_bucket", "_sum", "_count")

DERIVED = told.METRICS | frozenset(
    {
        "gpudiag_build_info",
        "gpudiag_symptom_unknown",
        "gpudiag_probe_success",
        "gpudiag_probe_duration_seconds",
        "gpudiag_probe_last_success_timestamp_seconds",
    }
)
"""Metrics that come from the snapshot's findings, probes and info, whatever its samples say."""


@dataclass(frozen=True, slots=True)
class Family:
    """One metric with its series. A histogram's stand in `readings` by part, ordered for print."""

    metric: Metric
    readings: tuple[Reading, ...]


@dataclass(frozen=True, slots=True)
class Histogram:
    """One series of a histogram: cumulative counts by upper bound as written, ascending."""

    labels: Labels
    time: float
    buckets: tuple[tuple[str, float], ...]
    sum: float | None
    count: float


def families(snapshot: Snapshot) -> list[Family]:
    """Every metric that has series now. Of two readings of one series the last counts."""
    known = metrics()
    groups: defaultdict[str, dict[tuple[str, Labels], Reading]] = defaultdict(dict)
    for reading in snapshot.samples:
        name = reading[0]
        if name not in known:
            name = _base(name)
        if name in known and name not in DERIVED:
            groups[name][reading[0], reading[1]] = reading
    for reading in own(snapshot):
        groups[reading[0]][reading[0], reading[1]] = reading
    return [
        Family(metric, tuple(groups[name].values()))
        for name, metric in known.items()
        if name in groups
    ]


def _base(name: str) -> str:
    for part in _PARTS:
        if name.endswith(part):
            return name.removesuffix(part)
    return name


def histograms(family: Family) -> Iterator[Histogram]:
    """The series of a histogram; one whose +Inf bucket is not there is not complete: left out."""
    name = family.metric.name
    buckets: defaultdict[Labels, list[tuple[str, float]]] = defaultdict(list)
    sums: dict[Labels, float] = {}
    times: dict[Labels, float] = {}
    for part, pairs, time, value in family.readings:
        if part == name + "_bucket":
            rest = tuple(pair for pair in pairs if pair[0] != "le")
            buckets[rest].append((dict(pairs).get("le", ""), value))
            times[rest] = time
        elif part == name + "_sum":
            sums[pairs] = value
    for pairs, found in buckets.items():
        found.sort(key=_bound)
        if found[-1][0] == "+Inf":
            yield Histogram(pairs, times[pairs], tuple(found), sums.get(pairs), found[-1][1])


def _bound(bucket: tuple[str, float]) -> float:
    try:
        return float(bucket[0])
    except ValueError:
        return float("-inf")


def own(snapshot: Snapshot) -> Iterator[Reading]:
    """The agent's series about itself. A folded finding is its explainer's and has no series."""
    now, info = snapshot.now, snapshot.info
    build = labels(version=info.version, revision=info.revision, python=platform.python_version())
    yield "gpudiag_build_info", build, now, 1.0
    firing = (one for one in snapshot.findings if one.state == "firing" and not one.explained_by)
    yield from told.told(firing, now)
    for symptom in sorted({symptom for symptom, _ in snapshot.unknown}):
        yield "gpudiag_symptom_unknown", labels(symptom=symptom), now, 1.0
    for probe in snapshot.probes:
        if probe.available:
            pairs = labels(probe=probe.name)
            yield "gpudiag_probe_success", pairs, now, float(probe.ok)
            yield "gpudiag_probe_duration_seconds", pairs, now, probe.duration
            if probe.last_success is not None:
                last = "gpudiag_probe_last_success_timestamp_seconds"
                yield last, pairs, now, probe.last_success
