"""Watching the events of the own pod, over HTTPS, on good and bad days."""

from __future__ import annotations

import itertools
import time

import pytest

from gpudiag.agent.kubernetes.pod_events import PodEvents
from gpudiag.probes import Event
from tests import kubepods
from tests.kubeserver import TOKEN
from tests.running import wait_for
from tests.tools import needs

pytestmark = needs("openssl", "openssl")

NOW = 1_800_000_030.0
FOLDER = "/api/v1/namespaces/ml/events"


@pytest.fixture
def happen(cluster):
    names = itertools.count()

    def one(*words, **other):
        cluster.objects.add(f"{FOLDER}/chat-0.{next(names)}", kubepods.event(*words, **other))

    return one


@pytest.fixture
def watch(cluster):
    started = []

    def begin(timeout=30.0):
        told: list[Event] = []
        watching = PodEvents(
            cluster.api(timeout), "chat-0", "gpudiag", told.append, lambda: NOW, (0.05,)
        )
        watching.start()
        started.append(watching)
        wait_for(lambda: cluster.requests("GET"), every=0.01)
        return told

    yield begin
    for watching in started:
        watching.stop()


def comes(told, count):
    wait_for(lambda: len(told) >= count, every=0.02)
    return [event.line for event in told]


def watches(cluster):
    return [a for a in cluster.asked if "watch=true" in a.path]


def test_what_is_there_and_what_comes_is_told_as_kubectl_words_it(cluster, happen, watch):
    happen("Unhealthy", "Liveness probe failed: HTTP probe failed")
    told = watch()
    comes(told, 1)
    happen("Killing", "Container vllm failed liveness probe, will be restarted", type="Normal")
    assert comes(told, 2) == [
        "Warning Unhealthy pod/chat-0 Liveness probe failed: HTTP probe failed",
        "Normal Killing pod/chat-0 Container vllm failed liveness probe, will be restarted",
    ]
    assert (told[0].time, told[0].source) == (1_800_000_000.0, "kubernetes")
    assert told[0].fields == {"container": "vllm"}


def test_what_is_not_the_workloads_is_left_out(cluster, happen, watch):
    told = watch()
    happen("ActionDone", "unready at server=chat", reportingComponent="gpudiag")
    happen("Started", "Started container gpudiag", container="gpudiag")
    happen("Started", "Started container vllm", pod="chat-1")
    happen("BackOff", "long ago", at="2027-01-15T07:50:00Z")
    happen("BackOff", "Back-off restarting failed container vllm")
    assert comes(told, 1) == [
        "Warning BackOff pod/chat-0 Back-off restarting failed container vllm"
    ]


def test_counted_ones_have_the_time_of_the_last(cluster, happen, watch):
    told = watch()
    happen("Unhealthy", "a", lastTimestamp="2027-01-15T08:00:07Z")
    series = {"count": 3, "lastObservedTime": "2027-01-15T08:00:09.500000Z"}
    happen(
        "Unhealthy", "b", lastTimestamp=None, eventTime="2027-01-15T08:00:01.000000Z", series=series
    )
    comes(told, 2)
    assert [event.time - 1_800_000_000.0 for event in told] == [7.0, 9.5]


def test_a_watch_that_ends_goes_on_where_it_stood(cluster, happen, watch):
    cluster.watch_seconds = 0.2
    told = watch()
    happen("Unhealthy", "first")
    comes(told, 1)
    wait_for(lambda: len(watches(cluster)) >= 3, every=0.02)
    happen("Unhealthy", "second")
    comes(told, 2)
    wait_for(lambda: len(watches(cluster)) >= 5, every=0.02)
    assert len(told) == 2
    assert len(cluster.requests("GET")) - len(watches(cluster)) == 1


@pytest.mark.parametrize("how", ["in the stream", "at once"])
def test_a_place_that_is_forgotten_begins_with_a_list_again(cluster, happen, watch, how):
    cluster.watch_seconds = 0.2
    told = watch()
    if how == "at once":
        cluster.faults.append(("/events", 410))
    else:
        cluster.forgotten = cluster.objects.version + 5
    wait_for(lambda: len(cluster.requests("GET")) - len(watches(cluster)) >= 2, every=0.02)
    cluster.forgotten = 0
    happen("Unhealthy", "after it")
    assert "after it" in comes(told, 1)[0]


@pytest.mark.parametrize("fault", [500, "reset", "hang", "html"])
def test_an_api_that_fails_is_asked_again_and_the_log_says_so_once(
    cluster, happen, watch, fault, caplog
):
    cluster.faults += [("/events", fault), ("/events", fault)]
    told = watch(timeout=3.0 if fault == "hang" else 30.0)
    happen("Unhealthy", "after it")
    comes(told, 1)
    assert caplog.text.count("what the cluster says of this pod is not seen") == 1
    assert TOKEN not in caplog.text


def test_a_token_that_expires_is_read_again(cluster, happen, watch):
    cluster.watch_seconds = 0.2
    told = watch()
    cluster.tokens = {"second"}
    (cluster.folder / "token").write_text("second")
    happen("Unhealthy", "after it")
    comes(told, 1)


def test_an_api_that_ends_each_watch_is_not_asked_without_a_pause(cluster, watch):
    cluster.watch_seconds = 0.0
    began = time.monotonic()
    watch()
    wait_for(lambda: len(watches(cluster)) >= 8, every=0.02)
    # The last one that is counted may just have begun, and so may one that is being counted.
    pauses = len(watches(cluster)) - 2
    assert time.monotonic() - began >= pauses * 0.05
