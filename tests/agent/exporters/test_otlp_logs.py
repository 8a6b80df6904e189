"""What a collector hears of findings and actions, and that the agent does not mind a dead one."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from gpudiag.agent.exporters import otlp_logs
from gpudiag.agent.exporters.otlp_events import of_subject
from gpudiag.agent.exporters.otlp_logs import OtlpLogPusher
from gpudiag.agent.exporters.view import Snapshots
from gpudiag.agent.findings.remarks import Acknowledgement
from gpudiag.probes.errors import GpudiagError, UsageError
from tests.agent.exporters.collector import Collector, attributes, collecting
from tests.agent.exporters.fake_view import HOT, INFO, NOW, FakeView, throttled

HEAT = throttled(NOW)


def changed(**fields: Any) -> Any:
    return msgspec.structs.replace(HEAT, **fields)


@pytest.fixture
def collector() -> Iterator[Collector]:
    with collecting() as server:
        yield server


@pytest.fixture
def node(view: FakeView) -> FakeView:
    view.found = []
    return view


def pusher(view: FakeView, url: str, **more: Any) -> OtlpLogPusher:
    environ = {"POD_NAME": "agent-x", "NODE_NAME": "n1", "POD_NAMESPACE": "gpu"}
    return OtlpLogPusher(Snapshots(view), url, environ=environ, **{"timeout": 30.0, **more})


def show(view: FakeView, *found: Any) -> None:
    view.found, view.version = list(found), view.version + 1


def test_a_finding_is_raised_with_the_conventions_names(
    node: FakeView, collector: Collector
) -> None:
    show(node, HEAT)
    pusher(node, collector.logs_url, headers={"X-Key": "k"}).push()
    (record,) = collector.records()
    assert record.event_name == "gpudiag.finding.raised"
    assert (record.severity_number, record.severity_text) == (13, "WARN")
    assert record.time_unix_nano == int((NOW - 420) * 1e9)
    assert record.observed_time_unix_nano == int(NOW * 1e9)
    assert record.body.string_value == HEAT.summary
    assert attributes(record) == {
        "gpudiag.finding.id": HEAT.id,
        "gpudiag.finding.state": "firing",
        "gpudiag.symptom": "thermal-throttle",
        "gpudiag.cause": "thermal-throttle",
        "gpudiag.confidence": 0.93,
        "gpudiag.severity": "warning",
        "gpudiag.runbook": "thermal-throttle#thermal-throttle",
        "hw.id": HOT,
        "hw.type": "gpu",
    }
    (of,) = collector.logs[0].resource_logs
    said = attributes(of.resource)
    assert (said["service.name"], said["service.version"]) == ("gpudiag", INFO.version)
    assert said["host.name"] == said["k8s.node.name"] == "n1"
    assert (said["k8s.pod.name"], said["k8s.namespace.name"]) == ("agent-x", "gpu")
    assert of.scope_logs[0].scope.name == "gpudiag"
    assert collector.headers["X-Key"] == "k"


def test_each_turn_is_told_once(node: FakeView, collector: Collector) -> None:
    push = pusher(node, collector.logs_url).push
    on_it = Acknowledgement(by="ann", at=NOW, until=NOW + 60, reason="r")
    over = changed(state="resolved", resolved_at=NOW - 1, reason="cleared", acknowledged=None)
    worse = changed(cause="airflow", severity="critical")
    mine = msgspec.structs.replace(worse, acknowledged=on_it)
    for found in (HEAT, HEAT, changed(confidence=0.5), worse, mine, over, over):
        show(node, found)
        push()
    records = collector.records()
    assert [(r.event_name.rpartition(".")[2], r.severity_text) for r in records] == [
        ("raised", "WARN"), ("updated", "ERROR"), ("updated", "ERROR"), ("resolved", "INFO")
    ]  # fmt: skip
    assert attributes(records[2])["gpudiag.finding.acknowledged_by"] == "ann"
    assert attributes(records[3])["gpudiag.finding.reason"] == "cleared"
    assert records[3].time_unix_nano == int((NOW - 1) * 1e9)


def test_one_that_came_and_went_between_two_rounds_is_told_whole(
    node: FakeView, collector: Collector
) -> None:
    show(node, changed(state="resolved", resolved_at=NOW - 1, reason="cleared"))
    pusher(node, collector.logs_url).push()
    names = [r.event_name for r in collector.records()]
    assert names == ["gpudiag.finding.raised", "gpudiag.finding.resolved"]


def test_pending_ones_and_those_of_before_the_start_are_not_told(
    node: FakeView, collector: Collector
) -> None:
    old = changed(raised_at=INFO.started - 5)
    push = pusher(node, collector.logs_url).push
    show(node, old, changed(symptom="power-brake", state="pending", raised_at=None))
    push()
    assert collector.logs == []
    show(node, msgspec.structs.replace(old, state="resolved", resolved_at=NOW))
    push()
    assert [r.event_name for r in collector.records()] == ["gpudiag.finding.resolved"]


def test_a_subject_by_the_conventions() -> None:
    pairs = [("job", "llama"), ("rank", "3"), ("node", "n1"), ("pid", "77"), ("device", "mlx5_0"),
             ("mountpoint", "/x"), ("server", "chat")]  # fmt: skip
    assert of_subject(pairs) == {
        "gpudiag.job": "llama",
        "gpudiag.rank": 3,
        "host.name": "n1",
        "process.pid": 77,
        "system.device": "mlx5_0",
        "system.filesystem.mountpoint": "/x",
        "gpudiag.server": "chat",
    }


def test_what_came_of_actions_is_told(node: FakeView, collector: Collector) -> None:
    plan: dict[str, Any] = {"id": "p1", "action": "gc", "target": "job=llama", "finding": "f"}
    plan["subject"] = {"job": "llama"}
    ledger: list[dict[str, Any]] = [{"plan": {**plan, "id": "old"}, "state": "done", "at": NOW}]
    push = pusher(node, collector.logs_url, actions=lambda: {"actions": ledger}).push
    push()
    for state in ("started", "done", "not_verified"):
        ledger[:1] = [{"plan": plan, "state": state, "at": NOW}]
        push()
    records = collector.records()
    assert {r.event_name for r in records} == {"gpudiag.action"}
    outcomes = [attributes(r)["gpudiag.action.outcome"] for r in records]
    assert outcomes == ["started", "done", "not_verified"]
    assert [r.severity_text for r in records] == ["INFO", "INFO", "WARN"]
    assert attributes(records[0])["gpudiag.job"] == "llama"


def test_a_spoilt_ledger_keeps_no_finding_back(node: FakeView, collector: Collector) -> None:
    def spoilt() -> dict[str, Any]:
        raise GpudiagError("the ledger cannot be used")

    show(node, HEAT)
    pusher(node, collector.logs_url, actions=spoilt).push()
    assert len(collector.records()) == 1


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_what_cannot_be_taken_now_is_sent_again(
    node: FakeView, collector: Collector, status: int
) -> None:
    sender = pusher(node, collector.logs_url)
    collector.status = status
    show(node, HEAT)
    sender.push()
    assert str(status) in sender.status().detail
    collector.status = 200
    sender.push()
    sender.push()
    assert [r.event_name for r in collector.records()] == ["gpudiag.finding.raised"]
    assert (sender.status().ok, sender.lost) == (True, 0)


@pytest.mark.parametrize("status", [400, 401, 302])
def test_what_is_refused_for_good_is_counted_and_not_sent_again(
    node: FakeView, collector: Collector, status: int
) -> None:
    sender = pusher(node, collector.logs_url)
    collector.status = status
    show(node, HEAT)
    sender.push()
    collector.status = 200
    sender.push()
    assert (collector.records(), sender.lost) == ([], 1)


def test_a_dead_collector_blocks_nobody_and_only_the_newest_wait(
    node: FakeView, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(otlp_logs, "MAX_WAITING", 5)
    sender = pusher(node, "http://u:hush@127.0.0.1:9/v1/logs")
    began = time.monotonic()
    for n in range(8):
        show(node, changed(raised_at=NOW - 10 + n))
        sender.push()
    assert time.monotonic() - began < 60
    assert sender.lost == 3
    assert "127.0.0.1:9/v1/logs does not take findings" in sender.status().detail
    assert "hush" not in sender.status().detail
    assert len([r for r in caplog.records if r.levelno == logging.WARNING]) == 1


def test_a_collector_that_never_answers_is_given_up(node: FakeView) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as deaf:
        sender = pusher(node, f"http://127.0.0.1:{deaf.getsockname()[1]}/v1/logs", timeout=0.5)
        show(node, HEAT)
        began = time.monotonic()
        sender.push()
        assert time.monotonic() - began > 0.4
        assert not sender.status().ok


def test_it_runs_by_itself_until_it_is_stopped(node: FakeView, collector: Collector) -> None:
    sender = pusher(node, collector.logs_url, interval=0.02)
    show(node, HEAT)
    sender.start()
    deadline = time.monotonic() + 120
    while not collector.records():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    sender.stop()
    sender._thread.join(60)
    assert not sender._thread.is_alive()


def test_an_address_that_is_none_is_refused(node: FakeView) -> None:
    with pytest.raises(UsageError, match="write http://HOST:4318/v1/logs"):
        pusher(node, "file:///etc/passwd")
