import queue

import pytest

from gpudiag.agent.clock import Clock
from gpudiag.agent.engine import Engine, window_for
from gpudiag.agent.findings.book import Book
from gpudiag.agent.findings.store import Store
from gpudiag.agent.rules.contract import Diagnosis, Healthy, Rule, subject
from gpudiag.agent.scheduler import Batch
from gpudiag.agent.window.archive import Archive
from gpudiag.agent.writer import Writer
from gpudiag.probes import Event, Sample
from tests.running import wait_for

METRIC = "gpudiag_host_load1"


def check(window, limits):
    load = window.value(METRIC)
    if load is not None:
        ill = load > limits["load"]
        yield Diagnosis(subject(), "cpu-pressure", 0.9, f"load {load}", ()) if ill else Healthy(())


RULE = Rule(check=check, reads=frozenset({METRIC}), events=frozenset({"kmsg"}), clear=0.0)
RULES, LIMITS = {"cpu-pressure": RULE}, {"cpu-pressure": {"load": 10.0}}


class Seen:
    def __init__(self):
        self.turns, self.samples = [], []

    def observe(self, samples, events):
        self.samples += samples

    def on_findings(self, now, changed, window):
        self.turns += [(f.state, f.reason) for f in changed]


class Desk:
    """A writer on hands of a clock that the test turns."""

    def __init__(self, folder, archive=None):
        self.wall = self.mono = 1000.0
        self.batches: queue.Queue[Batch] = queue.Queue()
        self.seen = Seen()
        self.store = Store(folder / "f.db")
        self.clock = Clock(lambda: self.wall, lambda: self.mono)
        engine = Engine(
            RULES, LIMITS, window_for(RULES, archive=archive), Book(RULES, self.store.firing())
        )
        self.writer = Writer(
            engine,
            self.store,
            self.batches,
            self.clock,
            about_self=lambda now: [],
            observers=[self.seen],
        )

    def pass_(self, seconds, *, load=None, event=None, jump=0.0):
        self.mono += seconds
        self.wall += seconds + jump
        samples = [] if load is None else [Sample(METRIC, (), self.wall, load)]
        self.batches.put((samples, [event] if event else []))
        self.writer.turn(0)

    def findings(self):
        return self.writer.engine.book.findings()


@pytest.fixture
def desk(tmp_path):
    return Desk(tmp_path)


def test_it_evaluates_every_five_seconds(desk):
    desk.pass_(0, load=50)
    assert [f.state for f in desk.findings()] == ["firing"]
    desk.pass_(1, load=1)
    assert [f.state for f in desk.findings()] == ["firing"]
    desk.pass_(4, load=1)
    assert desk.seen.turns == [("firing", ""), ("resolved", "cleared")]


def test_an_event_that_a_rule_waits_for_is_judged_at_once(desk):
    desk.pass_(0, load=1)
    desk.pass_(1, load=50, event=Event(1001.0, "kmsg", "x"))
    assert [f.state for f in desk.findings()] == ["firing"]


def test_a_finding_is_on_disk_before_anyone_can_see_it(desk, tmp_path):
    desk.pass_(0, load=50)
    assert [f.cause for f in Store(tmp_path / "f.db").firing()] == ["cpu-pressure"]


def test_a_clock_that_jumps_an_hour_ends_and_repeats_nothing(desk):
    desk.pass_(0, load=50)
    for seconds in range(4):
        desk.pass_(5, load=50, jump=3600.0 if seconds == 1 else 0.0)
    assert desk.seen.turns == [("firing", "")]
    assert desk.writer.engine.window.value(METRIC) == 50
    assert [e.type for e in desk.writer.engine.window.events(60)] == ["clock_jump"]


def test_a_clock_set_back_an_hour_drops_no_sample(desk):
    desk.pass_(0, load=1)
    desk.pass_(5, load=1, jump=-3600.0)
    desk.pass_(5, load=50)
    assert [f.state for f in desk.findings()] == ["firing"]
    assert desk.writer.engine.window.dropped == 0


def test_what_is_known_from_before_is_no_turn(desk, tmp_path):
    desk.pass_(0, load=50)
    desk.store.close()
    again = Desk(tmp_path)
    again.pass_(0, load=50)
    assert again.seen.turns == []
    assert [f.state for f in again.findings()] == ["firing"]


def test_other_thresholds_hold_from_the_next_evaluation(desk):
    desk.pass_(0, load=50)
    desk.writer.reconfigure(RULES, {"cpu-pressure": {"load": 100.0}})
    desk.pass_(5, load=50)
    assert desk.seen.turns[-1] == ("resolved", "cleared")


def test_a_finding_ends_with_its_rule(desk):
    desk.pass_(0, load=50)
    desk.writer.reconfigure({}, {})
    desk.pass_(5, load=50)
    assert desk.seen.turns[-1] == ("resolved", "disabled")


def test_a_rule_that_fails_says_cannot_tell_and_is_logged_once(tmp_path, caplog):
    def broken(window, limits):
        raise ZeroDivisionError

    rules = {"cpu-pressure": Rule(check=broken), "disk-watermark": RULE}
    limits = {"cpu-pressure": {}, "disk-watermark": {"load": 10.0}}
    engine = Engine(rules, limits, window_for(rules), Book(rules))
    engine.ingest([Sample(METRIC, (), 1.0, 50.0)])
    for now in (1.0, 6.0):
        engine.evaluate(now)
    assert engine.book.unknown()["cpu-pressure"][0].missing == (
        "rule cpu-pressure failed, see the agent's log",
    )
    assert [f.symptom for f in engine.book.findings()] == ["disk-watermark"]
    assert caplog.text.count("until mended") == 1


def test_a_batch_that_fails_costs_itself_only(desk, caplog):
    desk.seen.observe = lambda samples, events: 1 / 0
    desk.writer.thread.start()
    desk.batches.put(([Sample(METRIC, (), 1000.0, 20.0)], []))
    wait_for(lambda: "the agent goes on without it" in caplog.text)
    desk.mono += 10
    desk.wall += 10
    assert wait_for(desk.findings)
    desk.writer.stop()
    desk.writer.thread.join(5)


def test_a_slow_disk_keeps_nobody_from_reading(desk, monkeypatch):
    read = []

    def slow_save(changed, now):
        read.append((desk.writer.lock.acquire(blocking=False), desk.writer.findings))
        desk.writer.lock.release()

    monkeypatch.setattr(desk.store, "save", slow_save)
    desk.pass_(0, load=50)
    assert read == [(True, [])], "the lock is free, and what is not saved is not shown"
    assert [f.state for f in desk.writer.findings] == ["firing"]


def test_nor_does_the_disk_of_the_history(tmp_path, monkeypatch):
    free = []
    archive = Archive(tmp_path / "window.db")

    def slow_save(batch, now):
        free.append(mine.writer.lock.acquire(blocking=False))
        mine.writer.lock.release()
        return True

    monkeypatch.setattr(archive, "save", slow_save)
    mine = Desk(tmp_path, archive)
    for _ in range(30):
        mine.pass_(5, load=1)
    assert len(free) > 1
    assert all(free)
