"""A series' labels as its exporter wrote them: without what the scrape put around them."""

from __future__ import annotations

from collections.abc import Container
from functools import lru_cache

from gpudiag.agent.history.names import OURS
from gpudiag.probes import Labels
from gpudiag.probes.catalog import metrics
from gpudiag.probes.catalog.dialects import PARTS

EXPORTED = "exported_"
"""What a scrape without honor_labels puts before a label that the exporter wrote itself."""

REPLICAS = frozenset(
    {"prometheus", "prometheus_replica", "replica", "__replica__", "prometheus_group", "monitor"}
)
"""Labels that tell two scrapers apart: operator, Thanos, Mimir and VictoriaMetrics use these."""

Target = tuple[str, str]
"""Job and instance of a scrape, as `up` has them."""


@lru_cache(maxsize=200_000)
def own(metric: str, labels: Labels) -> Labels:
    """The labels that the exporter wrote, sorted.

    Of our metrics those of the catalogue remain; of others all but the scrape's job and replica.
    """
    named = dict(labels)
    for name, value in labels:
        if name.startswith(EXPORTED):
            del named[name]
            named[name.removeprefix(EXPORTED)] = value
    if metric.startswith(OURS):
        allowed = _catalogued(metric)
        return tuple(sorted((n, v) for n, v in named.items() if n in allowed))
    return tuple(sorted((n, v) for n, v in named.items() if n != "job" and n not in REPLICAS))


def target(labels: Labels) -> Target:
    """Who scraped it from where; empty where that is not in the labels."""
    named = dict(labels)
    return named.get("job", ""), named.get("instance", "")


def without_scrape_job(labels: Labels, targets: Container[Target]) -> Labels:
    """The labels without `job` where that is the scrape's name and not a training job's."""
    if target(labels) in targets:
        return tuple(pair for pair in labels if pair[0] != "job")
    return labels


@lru_cache(maxsize=1000)
def _catalogued(metric: str) -> frozenset[str]:
    whole = next((metric.removesuffix(p) for p in PARTS if metric.endswith(p)), metric)
    known = metrics().get(metric) or metrics().get(whole)
    return frozenset((*known.labels, "le")) if known else frozenset()
