"""The whole question: every node's history judged, several at once, with what is known so far."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Event
from pathlib import Path

from gpudiag.agent.config import Config, RuleSettings, rules_in_force
from gpudiag.agent.engine import Engine, window_for
from gpudiag.agent.findings.book import Book
from gpudiag.agent.history import listing as list_of
from gpudiag.agent.history.access import Access
from gpudiag.agent.history.client import Client
from gpudiag.agent.history.fetching import Fetcher
from gpudiag.agent.history.judging import Judge, Judged
from gpudiag.agent.history.listing import Chosen, Listing, Node
from gpudiag.agent.history.saving import saved
from gpudiag.agent.history.transfer import Patience

Progress = Callable[[str, float], None]
"""Told of a node and how much of its time is judged, 0 to 1."""

EXPECTED_SPACING = 15.0
"""Seconds between samples, until they were seen: what most servers scrape at."""

COARSEST = 60.0
"""However seldom it is judged, samples are a minute apart at most: rules reckon in minutes."""

LONG = ((24 * 3600.0, 120.0), (6 * 3600.0, 60.0))
"""From so many seconds on a history is judged only so often, always over all of its samples."""


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked of one server. Times are epoch seconds; `step` 0 takes the samples' spacing.

    `rules` are settings by symptom that stand in for the shipped ones; `incident` the folder for
    recordings; `traces` whether the evidence is kept as curves.
    """

    access: Access
    start: float
    end: float
    step: float = 0.0
    chosen: Chosen = field(default_factory=Chosen)
    rules: Mapping[str, RuleSettings] = field(default_factory=dict)
    incident: Path | None = None
    traces: bool = False
    patience: Patience = field(default_factory=Patience)


@dataclass(frozen=True, slots=True)
class Diagnosed:
    """What there was, and what the rules said of each node, in the order of their names."""

    listing: Listing
    nodes: tuple[Judged, ...]


def diagnose(question: Question, progress: Progress, workers: int = 0) -> Diagnosed:
    """Ask and judge; Ctrl-C ends it with what is known. Raises `ServerError` before the first node.

    `workers` 0 takes one process a CPU, and none for a single node.
    """
    client = Client(question.access, question.patience)
    try:
        found = list_of.listing(client, question.start, question.end, question.chosen)
    finally:
        client.close()
    count = min(workers or len(os.sched_getaffinity(0)), len(found.nodes))
    judged = (
        _here(question, found, progress) if count < 2 else _spread(question, found, progress, count)
    )
    return Diagnosed(found, tuple(sorted(judged, key=lambda one: one.node)))


def judge(
    question: Question, found: Listing, node: Node, on_time: Callable[[float], bool]
) -> Judged:
    """One node from the first to the last sample."""
    client = Client(question.access, question.patience)
    rules, limits = rules_in_force(Config(rules=dict(question.rules)))
    engine = Engine(rules, limits, window_for(rules), Book(rules))
    step = min(question.step, COARSEST) if question.step > EXPECTED_SPACING else 0.0
    fetcher = Fetcher(client, node, found.places, question.chosen, found.targets, step)
    chunks = fetcher.chunks(question.start, question.end, EXPECTED_SPACING)
    if question.incident:
        chunks = saved(chunks, question.incident, node.name, question.start)
    try:
        judging = Judge(node.name, engine, step=_pace(question), with_traces=question.traces)
        return judging.run(chunks, question.end, on_time)
    finally:
        client.close()


def _pace(question: Question) -> float:
    span = question.end - question.start
    return question.step or next((pace for least, pace in LONG if span >= least), 0.0)


def _here(question: Question, found: Listing, progress: Progress) -> Iterator[Judged]:
    for node in found.nodes:
        done = judge(question, found, node, _told(question, node.name, progress))
        yield done
        if done.failed == "interrupted":
            return


def _told(question: Question, node: str, progress: Progress) -> Callable[[float], bool]:
    def on_time(at: float) -> bool:
        progress(node, (at - question.start) / (question.end - question.start))
        return True

    return on_time


@dataclass(slots=True)
class _Worker:
    """What a process of the pool holds: the question, and its two ways to talk with the first."""

    question: Question
    found: Listing
    told: Queue[tuple[str, float]]
    ended: Event


_worker: list[_Worker] = []


def _start(
    question: Question, found: Listing, told: Queue[tuple[str, float]], ended: Event
) -> None:
    # The first process alone answers Ctrl-C, and ends the others with what they know.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _worker[:] = [_Worker(question, found, told, ended)]


def _work(index: int) -> Judged:
    (mine,) = _worker
    node = mine.found.nodes[index]
    span = mine.question.end - mine.question.start

    def on_time(at: float) -> bool:
        mine.told.put((node.name, (at - mine.question.start) / span))
        return not mine.ended.is_set()

    if mine.ended.is_set():
        return Judged(node.name, failed="interrupted")
    return judge(mine.question, mine.found, node, on_time)


def _spread(question: Question, found: Listing, progress: Progress, count: int) -> Sequence[Judged]:
    context = multiprocessing.get_context("spawn")
    told: Queue[tuple[str, float]] = context.Queue()
    ended = context.Event()
    with ProcessPoolExecutor(
        count, context, initializer=_start, initargs=(question, found, told, ended)
    ) as pool:
        futures = [pool.submit(_work, index) for index in range(len(found.nodes))]
        with _interrupting(ended):
            _watch(futures, told, progress)
    short = "interrupted" if ended.is_set() else "its process was killed: too little memory?"
    return [
        _result(future, node.name, short) for future, node in zip(futures, found.nodes, strict=True)
    ]


@contextmanager
def _interrupting(ended: Event) -> Iterator[None]:
    """Ctrl-C asks the workers to end, each after its present chunk; a second one ends them now."""

    def interrupted(*_: object) -> None:
        if ended.is_set():
            for process in multiprocessing.active_children():
                process.kill()
        ended.set()

    before = signal.signal(signal.SIGINT, interrupted)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _watch(
    futures: Sequence[Future[Judged]], told: Queue[tuple[str, float]], progress: Progress
) -> None:
    while True:
        pending = wait(futures, timeout=0.2).not_done
        while not told.empty():
            progress(*told.get())
        if not pending:
            return


def _result(future: Future[Judged], node: str, short: str) -> Judged:
    try:
        return future.result()
    except BrokenProcessPool:
        return Judged(node, failed=short)
