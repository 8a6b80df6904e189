"""Which series the exporters show."""

from __future__ import annotations

from typing import Any

import pytest

from gpudiag.agent.exporters.families import families, histograms, own
from gpudiag.agent.exporters.view import Snapshots
from gpudiag.probes import labels
from tests.agent.exporters.fake_view import FakeView


def shown(view: FakeView, metric: str) -> list[tuple[dict[str, str], float]]:
    found = [f for f in families(Snapshots(view).get()) if f.metric.name == metric]
    return [(dict(pairs), value) for f in found for _, pairs, _, value in f.readings]


def test_only_firing_findings_that_nothing_explains_are_active(view: FakeView) -> None:
    active = shown(view, "gpudiag_finding_active")
    assert [(pairs["symptom"], value) for pairs, value in active] == [
        ("thermal-throttle", 0.93),
        ("gpu-xid", 0.6),
    ]
    assert active[0][0]["subject"] == "uuid=GPU-00000003-dead-beef"


def test_a_probe_whose_source_is_not_here_has_no_series(view: FakeView) -> None:
    success = {pairs["probe"]: value for pairs, value in shown(view, "gpudiag_probe_success")}
    assert success == {"nvml": 1.0, "kmsg": 0.0}


def test_a_probe_that_never_succeeded_has_no_last_success(view: FakeView) -> None:
    last = shown(view, "gpudiag_probe_last_success_timestamp_seconds")
    assert [pairs["probe"] for pairs, _ in last] == ["nvml"]


def test_a_symptom_unknown_for_two_subjects_is_one_series(view: FakeView) -> None:
    view.blind = [("pcie-degraded", ("a",)), ("pcie-degraded", ("b",))]
    assert shown(view, "gpudiag_symptom_unknown") == [({"symptom": "pcie-degraded"}, 1.0)]


def test_a_recorded_series_of_the_agent_gives_way_to_its_own(view: FakeView) -> None:
    view.readings.append(("gpudiag_probe_success", labels(probe="old"), view.time, 1.0))
    assert "old" not in [pairs["probe"] for pairs, _ in shown(view, "gpudiag_probe_success")]


def test_of_two_readings_of_a_series_the_last_is_shown(view: FakeView) -> None:
    view.readings.append(("gpudiag_host_load1", (), view.time, 99.0))
    assert shown(view, "gpudiag_host_load1") == [({}, 99.0)]


def test_a_metric_outside_the_catalogue_is_not_shown(view: FakeView) -> None:
    view.readings = [("DCGM_FI_DEV_GPU_TEMP", (), view.time, 1.0)]
    own_names = {reading[0] for reading in own(Snapshots(view).get())}
    assert {f.metric.name for f in families(Snapshots(view).get())} == own_names


@pytest.fixture
def ttft(view: FakeView) -> Any:
    return next(f for f in families(Snapshots(view).get()) if f.metric.kind == "histogram")


def test_histogram_buckets_ascend(ttft: Any) -> None:
    (series,) = histograms(ttft)
    assert series.buckets == (("0.1", 4.0), ("0.5", 5.0), ("+Inf", 6.0))
    assert (series.sum, series.count) == (3.25, 6.0)


def test_a_histogram_without_its_last_bucket_is_left_out(view: FakeView) -> None:
    view.readings = [r for r in view.readings if ("le", "+Inf") not in r[1]]
    found = [f for f in families(Snapshots(view).get()) if f.metric.kind == "histogram"]
    assert [list(histograms(f)) for f in found] == [[]]
