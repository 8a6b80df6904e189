import math
import threading

import pytest

from gpudiag.agent.clock import Clock
from gpudiag.agent.scheduler import Scheduler
from gpudiag.probes import Event, Sample, labels
from gpudiag.probes.errors import Partly, Unavailable
from tests.running import PATIENCE, wait_for

METRIC = "gpudiag_host_load1"


class FakeProbe:
    def __init__(self, *answers, cadence=0.02):
        self.name, self.metrics, self.cadence = "fake", frozenset({METRIC}), cadence
        self.answers = list(answers)
        self.closed = False

    def read(self):
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return answer() if callable(answer) else answer

    def close(self):
        self.closed = True


def raising(error):
    def read():
        raise error

    return read


@pytest.fixture
def run():
    schedulers = []

    def start(probe):
        scheduler = Scheduler([probe], Clock())
        schedulers.append(scheduler)
        scheduler.start()
        return scheduler

    yield start
    for scheduler in schedulers:
        scheduler.stop()


def values(batch, metric):
    return [s.value for s in batch[0] if s.metric == metric]


GOOD = [Sample(METRIC, (), 1.0, 2.5), Event(1.0, "kmsg", "line")]


def test_samples_and_events_arrive_apart_with_the_probes_own_success(run):
    samples, events = run(FakeProbe(GOOD)).batches.get(timeout=PATIENCE)
    assert Sample(METRIC, (), 1.0, 2.5) in samples
    assert [e.line for e in events] == ["line"]
    assert values((samples, events), "gpudiag_probe_success") == [1.0]


def test_a_failing_read_marks_its_series_stale_and_says_why(run):
    scheduler = run(FakeProbe(GOOD, raising(OSError("boom"))))
    scheduler.batches.get(timeout=PATIENCE)
    failed = scheduler.batches.get(timeout=PATIENCE)
    assert math.isnan(values(failed, METRIC)[0])
    assert values(failed, "gpudiag_probe_success") == [0.0]
    assert scheduler.statuses()[0].detail == "OSError: boom"


def test_reads_that_bring_nothing_new_are_not_told_each_time(run):
    probe = FakeProbe(GOOD, *[[]] * 10, GOOD)
    scheduler = run(probe)
    first, second = scheduler.batches.get(timeout=PATIENCE), scheduler.batches.get(timeout=PATIENCE)
    assert first[1]
    assert second[1]


def test_a_read_that_fails_with_nothing_to_lose_is_told_at_once(run, monkeypatch):
    monkeypatch.setattr("gpudiag.agent.scheduler.QUIET_SECONDS", 1e6)
    scheduler = run(FakeProbe([], raising(OSError("boom"))))
    scheduler.batches.get(timeout=PATIENCE)
    failed = scheduler.batches.get(timeout=PATIENCE)
    assert values(failed, "gpudiag_probe_success") == [0.0]


def test_an_absent_source_is_not_a_failure(run):
    scheduler = run(FakeProbe(raising(Unavailable("no InfiniBand here"))))
    assert scheduler.batches.get(timeout=PATIENCE) == ([], [])
    (status,) = scheduler.statuses()
    assert (status.available, status.ok, status.detail) == (False, True, "no InfiniBand here")


def test_a_read_that_does_not_return_is_seen_and_holds_nobody(run, monkeypatch):
    monkeypatch.setattr("gpudiag.agent.scheduler.LATE_SECONDS", 0.05)
    release = threading.Event()
    scheduler = run(FakeProbe(lambda: release.wait() and ()))
    wait_for(lambda: not scheduler.statuses()[0].ok, every=0.01)
    assert "has not returned" in scheduler.statuses()[0].detail
    release.set()


def test_a_writer_that_lags_costs_counted_samples_not_memory(run, monkeypatch):
    monkeypatch.setattr("gpudiag.agent.scheduler.QUEUE_BATCHES", 2)
    scheduler = run(FakeProbe(GOOD, cadence=0.001))
    wait_for(lambda: scheduler.dropped, every=0.01)
    assert scheduler.batches.qsize() == 2


def test_stop_closes_the_probe(run):
    probe = FakeProbe(GOOD)
    scheduler = run(probe)
    scheduler.stop()
    assert probe.closed


def test_labels_are_sorted_pairs():
    assert labels(uuid="u", gpu="0") == (("gpu", "0"), ("uuid", "u"))


def test_what_came_before_a_part_failed_counts_and_the_rest_is_stale(run):
    def partly():
        yield Sample(METRIC, (), 2.0, 3.0)
        raise Partly("b: no connection")

    both = [Sample(METRIC, (), 1.0, 2.5), Sample(METRIC, (("b", "c"),), 1.0, 4.0)]
    scheduler = run(FakeProbe(both, partly))
    scheduler.batches.get(timeout=PATIENCE)
    told = {
        s.labels: s.value for s in scheduler.batches.get(timeout=PATIENCE)[0] if s.metric == METRIC
    }
    assert told[()] == 3.0
    assert math.isnan(told[("b", "c"),])
    (status,) = scheduler.statuses()
    assert (status.ok, status.available, status.detail) == (False, True, "b: no connection")
