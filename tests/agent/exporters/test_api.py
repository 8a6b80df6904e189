"""The JSON API."""

from __future__ import annotations

from typing import Any

import pytest

from gpudiag.probes import Event
from tests.agent.exporters.client import Client
from tests.agent.exporters.fake_view import HOT, NOW, FakeView


def read(client: Client, path: str, status: int = 200) -> Any:
    answer = client.get(path)
    assert answer.status_code == status
    return answer.json()


def test_findings_carry_what_the_other_outputs_carry(client: Client) -> None:
    (hot,) = read(client, "/api/v1/findings?symptom=thermal-throttle")["findings"]
    assert hot["subject"] == {"uuid": HOT}
    assert hot["runbook"] == "thermal-throttle#thermal-throttle"
    assert hot["evidence"][0]["expected"] == ">= 1.9 GHz"
    assert hot["rivals"] == [
        {"cause": "power-brake", "why_not": "no power brake reason was active"}
    ]


@pytest.mark.parametrize(("state", "count"), [("firing", 3), ("resolved", 1), ("pending", 0)])
def test_findings_by_state(client: Client, state: str, count: int) -> None:
    body = read(client, f"/api/v1/findings?state={state}")
    assert [f["state"] for f in body["findings"]] == [state] * count
    assert body["unknown"] == []


def test_what_cannot_be_told_names_what_is_missing(client: Client) -> None:
    body = read(client, "/api/v1/findings?state=unknown")
    assert body["findings"] == []
    assert body["unknown"] == [
        {
            "symptom": "fabric-manager-down",
            "state": "unknown",
            "missing": ["gpudiag_gpu_fabric_state"],
        }
    ]


@pytest.mark.parametrize(
    ("query", "named"),
    [
        ("findings?state=open", "pending, firing, resolved, unknown"),
        ("findings?symptom=bad-mood", "bad-mood"),
        ("series?metric=up", "those of the catalogue"),
        ("series?seconds=60", "need a metric"),
        ("series?name=gpudiag_host_load1", "?metric=NAME&seconds=900&uuid="),
        ("findings?severity=critical", "it takes state, symptom, since, until"),
        ("probes?name=nvml", "it takes no parameters"),
        ("series?metric=gpudiag_host_load1&seconds=-1", "from 0 to"),
        ("series?metric=gpudiag_host_load1&seconds=nan", "from 0 to"),
    ],
)
def test_a_wrong_question_is_answered_with_what_to_ask(
    client: Client, query: str, named: str
) -> None:
    assert named in read(client, "/api/v1/" + query, 400)["error"]


def test_series_lists_what_is_fresh(client: Client, view: FakeView) -> None:
    assert len(read(client, "/api/v1/series")["series"]) == len(view.readings)


def test_series_with_points_narrowed_by_label(client: Client) -> None:
    query = f"/api/v1/series?metric=gpudiag_gpu_clock_hertz&seconds=60&uuid={HOT}"
    (row,) = read(client, query)["series"]
    assert row["labels"] == {"clock": "sm", "gpu": "3", "uuid": HOT}
    assert row["points"][0] == [NOW - 60, 1.155e9]
    assert row["points"][-1] == [NOW, 1.155e9]


def test_not_a_number_is_null(client: Client, view: FakeView) -> None:
    view.readings = [("gpudiag_train_loss", (), NOW, float("nan"))]
    assert read(client, "/api/v1/series")["series"][0]["value"] is None


def test_no_action_is_taken(client: Client) -> None:
    assert read(client, "/api/v1/actions") == {"mode": "dry-run", "actions": []}


def test_probes_say_who_speaks_and_what_fails(client: Client) -> None:
    body = read(client, "/api/v1/probes")
    assert (body["agent"]["node"], body["agent"]["version"]) == ("n1", "0.1.0")
    assert [p["ok"] for p in body["probes"]] == [True, False, False]


def test_ready_while_a_probe_succeeds(client: Client) -> None:
    assert read(client, "/readyz") == {"ready": True, "reason": ""}


def test_not_ready_when_every_success_is_old(client: Client, view: FakeView) -> None:
    view.time += 120.0
    assert "121 s ago" in read(client, "/readyz", 503)["reason"]
    assert read(client, "/healthz") == {"status": "alive"}


def test_not_ready_before_any_probe_succeeded(client: Client, view: FakeView) -> None:
    view.states = []
    assert "no probe has succeeded" in read(client, "/readyz", 503)["reason"]


def test_metrics_negotiates_format_and_encoding(client: Client) -> None:
    answer = client.get("/metrics", headers={"Accept": "application/openmetrics-text"})
    assert answer.headers["content-type"].startswith("application/openmetrics-text; version=1.0.0")
    assert answer.headers["content-encoding"] == "gzip"
    assert answer.text.endswith("# EOF\n")


def test_metrics_as_plain_text_without_compression(client: Client) -> None:
    answer = client.get("/metrics", headers={"Accept-Encoding": "identity"})
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert "content-encoding" not in answer.headers
    assert "# EOF" not in answer.text


def test_looking_back_gives_what_fired_in_that_time(client: Client, view: FakeView) -> None:
    fired = {f.id: f.raised_at for f in view.found if f.raised_at}
    raised = min(fired.values())
    assert read(client, f"/api/v1/findings?until={raised - 1}")["findings"] == []
    body = read(client, f"/api/v1/findings?since={raised}&until={NOW}")
    assert {f["id"] for f in body["findings"]} == fired.keys()


def test_a_moment_must_be_a_number(client: Client) -> None:
    assert "epoch seconds" in read(client, "/api/v1/findings?since=yesterday", 400)["error"]


def test_a_refusal_lists_the_parameters(client: Client) -> None:
    refusal = read(client, "/api/v1/series?seconds=60", 400)
    assert refusal["parameters"].keys() == {"metric", "seconds", "LABEL"}


def test_events_are_listed_by_age_source_and_type(client: Client, view: FakeView) -> None:
    left = Event(NOW - 60.0, "process", "exit pid=7 rank=3", "exit", {"rank": "3", "code": "1"})
    view.happened = [Event(NOW - 3000.0, "kmsg", "NVRM: Xid 79", "xid"), left]
    (row,) = read(client, "/api/v1/events")["events"]
    assert (row["line"], row["fields"]["code"]) == ("exit pid=7 rank=3", "1")
    assert len(read(client, "/api/v1/events?seconds=3600")["events"]) == 2
    assert read(client, "/api/v1/events?seconds=3600&source=kmsg&type=exit")["events"] == []


def test_the_index_lists_endpoints_that_answer(client: Client) -> None:
    endpoints = read(client, "/api/v1/")["endpoints"]
    assert {e["path"].rpartition("/")[2] for e in endpoints} == {
        "findings",
        "series",
        "events",
        "actions",
        "probes",
    }
    assert all(read(client, endpoint["path"]) for endpoint in endpoints)
