"""Decisions as Events of the cluster, against an API server's double over HTTPS."""

from __future__ import annotations

import logging
import time

import msgspec
import pytest

from gpudiag.agent.acting import events
from gpudiag.agent.acting.events import Events
from gpudiag.agent.actions.audit import Line
from tests.agent.actions.test_guard import plan
from tests.kubepods import path_of, pod
from tests.kubeserver import TOKEN
from tests.running import wait_for
from tests.tools import needs

pytestmark = needs("openssl", "openssl")

LINE = Line(time=1_800_000_000.5, decision="done", actor="gpudiag", why="it hangs", plan=plan())


def said(line=LINE, **other):
    return msgspec.structs.replace(line, **other)


def seen(cluster, count):
    wait_for(lambda: len(cluster.objects.of("events")) >= count, every=0.02)
    return cluster.objects.of("events")


@pytest.fixture
def node(cluster):
    return Events(cluster.api(3.0), events.of_node("n1"), "agent-x")


def test_a_node_gets_its_event_in_the_default_namespace(cluster, node):
    node(LINE)
    (event,) = seen(cluster, 1)
    assert cluster.asked[-1].path == "/apis/events.k8s.io/v1/namespaces/default/events"
    assert event["note"] == (
        "unready at server=chat for serving-stalled/engine-hung (gpudiag): it hangs"
    )
    assert (event["reason"], event["action"], event["type"]) == ("ActionDone", "Unready", "Normal")
    assert event["eventTime"] == "2027-01-15T08:00:00.500000Z"
    assert event["regarding"] == {
        **{"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "n1"},
    }


def test_a_pod_and_its_job_get_one_each(cluster):
    one = pod(owner="Job/llama")
    cluster.objects.add(path_of(one), one)
    api = cluster.api()
    sink = Events(api, events.of_pod(api, "llama-0"), "llama-0")
    sink(said(decision="not_verified"))
    both = seen(cluster, 2)
    assert [event["regarding"]["kind"] for event in both] == ["Pod", "Job"]
    assert both[0]["regarding"]["uid"] == one["metadata"]["uid"]
    assert {event["type"] for event in both} == {"Warning"}
    assert {event["metadata"]["namespace"] for event in both} == {"ml"}
    sink(said(time=1_800_000_001.0))
    assert len(seen(cluster, 4)) == 4
    assert len(cluster.requests("GET")) == 1


def test_without_the_right_to_look_the_pod_alone_has_it(cluster):
    cluster.forbidden.add(("GET", "/llama-0"))
    api = cluster.api()
    Events(api, events.of_pod(api, "llama-0"), "llama-0")(LINE)
    (event,) = seen(cluster, 1)
    assert event["regarding"] == {
        **{"apiVersion": "v1", "kind": "Pod", "name": "llama-0", "namespace": "ml"},
    }


def test_a_long_reason_is_cut_where_the_api_cuts(cluster, node):
    node(said(why="é" * 900))
    (event,) = seen(cluster, 1)
    assert 1000 < len(event["note"].encode()) <= 1024


@pytest.mark.parametrize("fault", [500, 429, "reset", "hang", "html"])
def test_an_api_that_fails_costs_that_event_alone(cluster, node, fault, caplog):
    cluster.faults.append(("/events", fault))
    with caplog.at_level(logging.WARNING):
        node(LINE)
        node(said(time=1_800_000_002.0))
        (event,) = seen(cluster, 1)
    assert event["eventTime"].endswith("02.000000Z")
    assert caplog.text.count("no event in the cluster") == 1
    assert TOKEN not in caplog.text


def test_an_event_that_is_there_already_is_no_trouble(cluster, node, caplog):
    node(LINE)
    node(LINE)
    node(said(time=1_800_000_002.0))
    assert len(seen(cluster, 2)) == 2
    assert not caplog.text


def test_an_api_that_hangs_keeps_nobody_waiting_and_the_log_says_so_once(cluster, caplog):
    cluster.faults += [("/events", "hang")]
    sink = Events(cluster.api(600.0), events.of_node("n1"), "agent-x")
    began = time.monotonic()
    with caplog.at_level(logging.WARNING):
        for _ in range(events.QUEUED + 20):
            sink(LINE)
    assert time.monotonic() - began < 60.0
    assert caplog.text.count("the API is slow") == 1
