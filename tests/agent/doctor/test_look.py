from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence

from gpudiag.agent.clock import Clock
from gpudiag.agent.doctor.look import Look, look
from gpudiag.agent.engine import Engine, window_for
from gpudiag.agent.findings.book import Book
from gpudiag.agent.rules.contract import Diagnosis, Limits, Rule, Verdict
from gpudiag.agent.window import Window
from gpudiag.probes import Event, Record, Sample
from gpudiag.probes.errors import Unavailable


class Told:
    metrics = frozenset({"gpudiag_host_load1"})
    cadence = 0.05

    def __init__(self, name: str, read: Callable[[], Iterable[Record]]) -> None:
        self.name, self.read, self.closed = name, read, False

    def close(self) -> None:
        self.closed = True


def load() -> list[Record]:
    now = time.time()
    return [Sample("gpudiag_host_load1", (), now, 3.0), Event(now, "kmsg", "a line")]


def check(window: Window, _: Limits) -> Iterable[Verdict]:
    if window.value("gpudiag_host_load1"):
        yield Diagnosis((), "cpu-pressure", 0.9, "Too much.", ())


def looked(probes: Sequence[Told], seconds: float = 0.1, deadline: float = 60.0) -> Look:
    rules = {"cpu-pressure": Rule(check, reads=frozenset({"gpudiag_host_load1"}))}
    engine = Engine(rules, {"cpu-pressure": {}}, window_for(rules), Book(rules))
    return look(
        probes, engine, Clock(), observe=lambda *_: None, seconds=seconds, deadline=deadline
    )


def test_the_rules_judge_what_the_probes_gave() -> None:
    found = looked([Told("host", load)])
    assert found.value("gpudiag_host_load1") == 3.0
    assert [f.symptom for f in found.of("cpu-pressure")] == ["cpu-pressure"]
    assert found.events[0].line == "a line"
    assert not found.silent


def test_a_probe_that_hangs_is_named_and_holds_nothing_up() -> None:
    gate = threading.Event()

    def hang() -> list[Record]:
        gate.wait()
        return []

    found = looked([Told("host", load), Told("network", hang)], deadline=3.0)
    gate.set()
    assert found.silent == {"network"}
    assert found.value("gpudiag_host_load1") == 3.0


def test_a_source_that_is_not_here_is_not_waited_for() -> None:
    def read() -> Iterable[Record]:
        raise Unavailable("no InfiniBand")

    found = looked([Told("infiniband", read)], deadline=600)
    assert found.seconds < 60
    assert found.statuses["infiniband"].detail == "no InfiniBand"
    assert not found.silent


def test_nvml_has_not_answered_while_its_child_says_nothing() -> None:
    assert looked([Told("nvml", list)], deadline=0.5).silent == {"nvml"}


def test_nvml_answered_when_it_gives_a_code() -> None:
    def read() -> list[Record]:
        return [Sample("gpudiag_nvml_return_code", (), time.time(), 18.0)]

    assert not looked([Told("nvml", read)]).silent


def test_the_probes_are_closed() -> None:
    probe = Told("host", load)
    looked([probe])
    assert probe.closed
