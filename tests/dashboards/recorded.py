"""Replayed incidents as one recording that a Prometheus can be filled with."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gpudiag.agent.findings.finding import Finding, subject_label
from gpudiag.agent.recording.meta import Meta
from gpudiag.agent.recording.timeline import Timeline
from gpudiag.agent.recording.writer import RecordingWriter
from gpudiag.agent.replay import fresh_engine, load, replay
from gpudiag.probes import Labels, Sample, catalog, labels
from gpudiag.probes.catalog import Metric

INCIDENTS = Path(__file__).parents[1] / "incidents"

USED = {
    "demo": (0.0, 900.0),
    "straggler/one-loader-starves": (0.0, 300.0),
    "memory-slow-growth/retained-tensors": (0.0, 4000.0),
    "straggler/hot-gpu": (0.0, 300.0),
    "gpu-xid/counter-born-mid-run": (0.0, 1170.0),
    "healthy/training-day": (3600.0, 6000.0),
}
"""Incidents, each a node of its own, and which seconds of them are taken."""

SPAN = 4200.0
_STEP = 15.0
_INVENTED_ON = "memory-slow-growth/retained-tensors"
_TYPICAL = {
    "uuid": "GPU-0", "gpu": "0", "job": "llama", "rank": "0", "pid": "1", "scope": "local",
    "kind": "involuntary", "reason": "hw_thermal", "state": "enqueued", "severity": "warning",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Recorded:
    """`metrics` is an OpenMetrics file that ends at `end`; `invented` the metrics that no incident
    had, which stand in it as their catalogue entry says.
    """

    metrics: Path
    end: float
    invented: frozenset[str]


def record(folder: Path, end: float) -> Recorded:
    """Write the incidents, what replaying them found, and the rest of the catalogue."""
    writer = RecordingWriter(folder / "recording", Meta(), max_bytes=2**30)
    seen: set[str] = set()
    for name, (first, last) in USED.items():
        timeline = load(INCIDENTS / f"{name}.yaml")
        samples = list(_as_node(name, timeline, first, last, end))
        seen |= {sample.metric for sample in samples}
        writer.add(samples)
    missing = [m for m in catalog.metrics().values() if not _is_seen(m, seen)]
    for metric in missing:
        writer.add(list(_invented(metric, end)))
    writer.close(end)
    metrics = folder / "recording" / "metrics.om"
    return Recorded(metrics, end, frozenset(metric.name for metric in missing))


def _as_node(
    name: str, timeline: Timeline, first: float, last: float, end: float
) -> Iterator[Sample]:
    shift = end - last
    for sample in timeline.samples(0, last)[0]:
        if sample.time >= first:
            yield _moved(sample, name, sample.time + shift)
    for finding in replay(timeline, fresh_engine()).findings():
        if finding.state == "firing" and not finding.explained_by and finding.raised_at is not None:
            yield from _active(finding, name, shift, last)


def _active(finding: Finding, node: str, shift: float, last: float) -> Iterator[Sample]:
    pairs = labels(
        symptom=finding.symptom,
        cause=finding.cause,
        severity=finding.severity,
        subject=subject_label(finding.subject),
    )
    time = finding.raised_at or 0.0
    while time <= last:
        sample = Sample("gpudiag_finding_active", pairs, time, finding.confidence)
        yield _moved(sample, node, time + shift)
        time += _STEP


def _moved(sample: Sample, node: str, time: float) -> Sample:
    """With the labels that a scrape attaches."""
    pairs = {**dict(sample.labels), "node": node, "cluster": "lab", "instance": f"{node}:9440"}
    return Sample(sample.metric, labels(**pairs), time, sample.value)


def _is_seen(metric: Metric, seen: set[str]) -> bool:
    return bool({metric.name, f"{metric.name}_bucket"} & seen)


def _invented(metric: Metric, end: float) -> Iterator[Sample]:
    """Twenty minutes of one series beside a recorded job: a gauge at 1, a counter that grows."""
    pairs = labels(**{name: _TYPICAL.get(name, "some") for name in metric.labels})
    for step in range(int(1200 / _STEP)):
        time = end - 1200 + step * _STEP
        grows = metric.kind in ("counter", "histogram")
        for part, more in _parts(metric):
            sample = Sample(metric.name + part, (*pairs, *more), time, step if grows else 1.0)
            yield _moved(sample, _INVENTED_ON, time)


def _parts(metric: Metric) -> list[tuple[str, Labels]]:
    if metric.kind != "histogram":
        return [("", ())]
    bounds = [("_bucket", labels(le=bound)) for bound in ("1", "+Inf")]
    return [*bounds, ("_count", ()), ("_sum", ())]
