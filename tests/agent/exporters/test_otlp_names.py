"""Every metric of the catalogue has a name and a unit that OpenTelemetry accepts."""

from __future__ import annotations

import re
from collections import defaultdict

import pytest

from gpudiag.agent.exporters.otlp_data import UCUM
from gpudiag.probes.catalog import Metric, metrics

ALL = [pytest.param(metric, id=name) for name, metric in metrics().items()]


@pytest.mark.parametrize("metric", ALL)
def test_name_and_unit(metric: Metric) -> None:
    assert re.fullmatch(r"(hw|gpudiag)(\.[a-z][a-z0-9_]*)+", metric.otel)
    assert metric.unit in UCUM


def test_metrics_that_share_a_name_share_kind_and_unit() -> None:
    groups: defaultdict[str, list[Metric]] = defaultdict(list)
    for metric in metrics().values():
        groups[metric.otel].append(metric)
    mixed = {n: g for n, g in groups.items() if len({(m.kind, m.unit) for m in g}) > 1}
    assert mixed == {}
    assert [name for name, group in groups.items() if len(group) > 1] == ["hw.gpu.io"]


def test_no_name_is_another_ones_namespace() -> None:
    names = {metric.otel for metric in metrics().values()}
    assert {n for n in names if any(other.startswith(n + ".") for other in names)} == set()
