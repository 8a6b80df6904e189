"""What a collector receives, and that the agent does not mind when there is none."""

from __future__ import annotations

import logging
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from gpudiag.agent.exporters.otlp import OtlpPusher
from gpudiag.agent.exporters.view import Snapshots
from gpudiag.probes import labels
from tests.agent.exporters.collector import Collector, attributes, collecting
from tests.agent.exporters.fake_view import HOT, NOW, FakeView


@pytest.fixture
def collector() -> Iterator[Collector]:
    with collecting() as server:
        yield server


def until(holds: Callable[[], object]) -> None:
    deadline = time.monotonic() + 120
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.fixture
def push(view: FakeView) -> Iterator[Callable[..., OtlpPusher]]:
    pushers: list[OtlpPusher] = []

    def start(url: str) -> OtlpPusher:
        environ = {"POD_NAME": "agent-x", "NODE_NAME": "n1"}
        pusher = OtlpPusher(Snapshots(view), url, interval=0.05, timeout=30.0, environ=environ)
        pushers.append(pusher)
        pusher.start()
        return pusher

    yield start
    for pusher in pushers:
        pusher.stop()
        pusher._thread.join()


@pytest.fixture
def sent(collector: Collector, push: Callable[..., OtlpPusher]) -> Any:
    pusher = push(collector.url)
    until(lambda: pusher.sent)
    (of_resource,) = collector.received[0].resource_metrics
    return of_resource


def metric(sent: Any, name: str) -> Any:
    (scope,) = sent.scope_metrics
    (found,) = [m for m in scope.metrics if m.name == name]
    return found


def test_resource_says_who_and_where(sent: Any) -> None:
    said = attributes(sent.resource)
    assert (said["service.name"], said["service.version"]) == ("gpudiag", "0.1.0")
    assert said["host.name"] == said["k8s.node.name"] == "n1"
    assert said["k8s.pod.name"] == "agent-x"


def test_memory_follows_the_hardware_conventions(sent: Any) -> None:
    usage = metric(sent, "hw.gpu.memory.usage")
    assert (usage.unit, usage.sum.is_monotonic) == ("By", False)
    (hot,) = [p for p in usage.sum.data_points if attributes(p)["hw.id"] == HOT]
    assert hot.as_double == 61203283968.0 + 3 * 2**28
    assert hot.time_unix_nano == int(NOW * 1e9)
    assert attributes(hot) == {"hw.id": HOT, "hw.type": "gpu", "gpu": "3"}


def test_temperature_names_its_sensor(sent: Any) -> None:
    temperature = metric(sent, "hw.temperature")
    assert temperature.unit == "Cel"
    assert len(temperature.gauge.data_points) == 8
    assert attributes(temperature.gauge.data_points[0])["hw.sensor_location"] == "core"


def test_energy_is_a_counter(sent: Any) -> None:
    energy = metric(sent, "hw.energy")
    assert (energy.unit, energy.sum.is_monotonic) == ("J", True)
    assert energy.sum.data_points[0].start_time_unix_nano == int((NOW - 3600) * 1e9)


def test_what_has_no_convention_stays_ours(sent: Any) -> None:
    clock = metric(sent, "gpudiag.gpu.clock")
    assert clock.unit == "Hz"
    assert attributes(clock.gauge.data_points[3])["clock"] == "sm"


def test_findings_go_along(sent: Any) -> None:
    points = metric(sent, "gpudiag.finding.active").gauge.data_points
    assert {attributes(p)["symptom"]: p.as_double for p in points} == {
        "thermal-throttle": 0.93,
        "gpu-xid": 0.6,
    }


def test_histogram_buckets_are_counted_apart(sent: Any) -> None:
    ttft = metric(sent, "gpudiag.serving.ttft")
    (point,) = ttft.histogram.data_points
    assert list(point.explicit_bounds) == [0.1, 0.5]
    assert list(point.bucket_counts) == [4, 1, 1]
    assert (point.count, point.sum, point.HasField("min")) == (6, 3.25, False)


def test_both_directions_are_one_metric(
    view: FakeView, collector: Collector, push: Callable[..., OtlpPusher]
) -> None:
    for way in ("rx", "tx"):
        name = f"gpudiag_gpu_pcie_{way}_bytes_total"
        view.readings.append((name, labels(uuid=HOT, gpu="3"), NOW, 5.0))
    pusher = push(collector.url)
    until(lambda: pusher.sent)
    points = metric(collector.received[0].resource_metrics[0], "hw.gpu.io").sum.data_points
    ways = [attributes(p)["network.io.direction"] for p in points]
    assert sorted(ways) == ["receive", "transmit"]


def test_a_counter_that_fell_began_anew(
    view: FakeView, collector: Collector, push: Callable[..., OtlpPusher]
) -> None:
    pusher = push(collector.url)
    until(lambda: pusher.sent)
    energy = "gpudiag_gpu_energy_joules_total"
    view.readings = [(energy, labels(uuid=HOT, gpu="3"), NOW + 5, 1.0)]
    view.version += 1
    before = pusher.sent
    until(lambda: pusher.sent > before + 1)
    (point,) = metric(collector.received[-1].resource_metrics[0], "hw.energy").sum.data_points
    assert point.start_time_unix_nano == int((NOW + 5) * 1e9)


def test_a_dead_collector_is_counted_and_said_once(
    push: Callable[..., OtlpPusher], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    pusher = push("http://127.0.0.1:9/v1/metrics")
    until(lambda: pusher.failed >= 3)
    status = pusher.status()
    assert (status.name, status.ok, status.last_success) == ("otlp", False, None)
    assert "http://127.0.0.1:9/v1/metrics does not take metrics" in status.detail
    assert len(caplog.records) == 1


def test_it_recovers_by_itself(
    collector: Collector, push: Callable[..., OtlpPusher], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    collector.status = 400
    pusher = push(collector.url)
    until(lambda: pusher.failed)
    assert "400" in pusher.status().detail
    collector.status = 200
    until(lambda: pusher.sent)
    assert pusher.status().ok
    assert "takes metrics again" in caplog.messages[-1]


def test_the_sdk_is_not_imported_until_it_pushes() -> None:
    code = (
        "import sys; import gpudiag.agent.exporters.otlp, gpudiag.agent.exporters.app;"
        "heavy = {'opentelemetry', 'jinja2', 'markdown_it', 'prometheus_client', 'httpx'};"
        "print(sorted(heavy & sys.modules.keys()))"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "[]"
