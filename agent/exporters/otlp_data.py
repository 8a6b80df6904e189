"""A snapshot in OpenTelemetry's data model, by the hardware conventions where they exist.

Importing this brings in the OpenTelemetry SDK; only the pusher does, once it is configured. The
data are built directly, because an observable instrument cannot carry a sample's own time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Histogram,
    HistogramDataPoint,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.metrics.export import Metric as OtelMetric
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from gpudiag.agent.exporters.families import Family, families, histograms
from gpudiag.agent.exporters.view import AgentInfo, Snapshot
from gpudiag.probes import Labels
from gpudiag.probes.catalog import Metric

UCUM = {
    "": "1",
    "ratio": "1",
    "bytes": "By",
    "bytes_per_step": "By/{step}",
    "celsius": "Cel",
    "hertz": "Hz",
    "joules": "J",
    "seconds": "s",
    "tokens": "{token}",
    "watts": "W",
}
"""The catalogue's units in the code that OpenTelemetry prescribes."""

_KUBERNETES = {
    "NODE_NAME": "k8s.node.name",
    "POD_NAME": "k8s.pod.name",
    "POD_NAMESPACE": "k8s.namespace.name",
    "CONTAINER_NAME": "k8s.container.name",
}
# The hardware conventions make these two UpDownCounters: they may be summed over GPUs.
_ADDITIVE = frozenset({"hw.gpu.memory.limit", "hw.gpu.memory.usage"})
_HARDWARE_KEYS = {"uuid": "hw.id", "sensor": "hw.sensor_location", "kind": "error.type"}
_CUMULATIVE = AggregationTemporality.CUMULATIVE
_ABSENT: Any = None

_Key = tuple[str, Labels]


def resource(info: AgentInfo, environ: Mapping[str, str]) -> Resource:
    """Who sends: the service, the host, and the pod where the environment names it.

    `OTEL_RESOURCE_ATTRIBUTES` adds to these.
    """
    where = {key: environ[name] for name, key in _KUBERNETES.items() if environ.get(name)}
    return Resource.create(
        {
            "service.name": "gpudiag",
            "service.version": info.version,
            "host.name": info.node,
            **where,
        }
    )


class Converter:
    """Turns snapshots into OTLP data. It remembers when each counter began, and its resets."""

    def __init__(self, of: Resource) -> None:
        self._resource = of
        self._scope = InstrumentationScope("gpudiag")
        self._begun: dict[_Key, tuple[float, float]] = {}

    def convert(self, snapshot: Snapshot) -> MetricsData:
        """All that is fresh in the snapshot; two metrics of one OTel name become one."""
        begun = self._begun
        # Filled anew by `_start` below, so that ended series are forgotten.
        self._begun = {}
        groups: defaultdict[str, list[Family]] = defaultdict(list)
        for family in families(snapshot):
            groups[family.metric.otel].append(family)
        found = [self._metric(group, begun, snapshot.info.started) for group in groups.values()]
        scopes = [ScopeMetrics(self._scope, found, "")]
        return MetricsData([ResourceMetrics(self._resource, scopes, "")])

    def _metric(
        self, group: list[Family], begun: Mapping[_Key, tuple[float, float]], started: float
    ) -> OtelMetric:
        metric = group[0].metric
        data: Gauge | Sum | Histogram
        if metric.kind == "histogram":
            data = Histogram([p for f in group for p in _buckets(f, started)], _CUMULATIVE)
        else:
            points = [p for f in group for p in self._numbers(f, begun, started)]
            if metric.kind == "counter" or metric.otel in _ADDITIVE:
                data = Sum(points, _CUMULATIVE, is_monotonic=metric.kind == "counter")
            else:
                data = Gauge(points)
        return OtelMetric(metric.otel, metric.help, UCUM.get(metric.unit, metric.unit), data)

    def _numbers(
        self, family: Family, begun: Mapping[_Key, tuple[float, float]], started: float
    ) -> Iterator[NumberDataPoint]:
        counter = family.metric.kind == "counter"
        for name, pairs, time, value in family.readings:
            start = 0.0
            if counter:
                start = self._start((name, pairs), begun, started, time, value)
            yield NumberDataPoint(
                attributes(family.metric, pairs), nanos(start), nanos(time), value
            )

    def _start(
        self,
        key: _Key,
        begun: Mapping[_Key, tuple[float, float]],
        started: float,
        time: float,
        value: float,
    ) -> float:
        start, last = begun.get(key, (min(started, time), value))
        if value < last:
            start = time
        self._begun[key] = (start, value)
        return start


def attributes(metric: Metric, pairs: Labels) -> dict[str, str]:
    """Labels as attributes: `hw.id` for the UUID, and what the `hw.*` conventions ask for."""
    if not metric.otel.startswith("hw."):
        return {"hw.id" if key == "uuid" else key: value for key, value in pairs}
    found = {_HARDWARE_KEYS.get(key, key): value for key, value in pairs}
    found["hw.type"] = "gpu"
    if metric.otel == "hw.gpu.io":
        found["network.io.direction"] = "receive" if "_rx_" in metric.name else "transmit"
    return found


def _buckets(family: Family, started: float) -> Iterator[HistogramDataPoint]:
    for series in histograms(family):
        counts = [int(count) for _, count in series.buckets]
        yield HistogramDataPoint(
            attributes=attributes(family.metric, series.labels),
            start_time_unix_nano=nanos(min(started, series.time)),
            time_unix_nano=nanos(series.time),
            count=int(series.count),
            sum=_ABSENT if series.sum is None else series.sum,
            bucket_counts=[high - low for low, high in zip([0, *counts], counts, strict=False)],
            explicit_bounds=[float(bound) for bound, _ in series.buckets[:-1]],
            min=_ABSENT,
            max=_ABSENT,
        )


def nanos(time: float) -> int:
    """Epoch seconds as whole nanoseconds."""
    return int(time * 1e9)
