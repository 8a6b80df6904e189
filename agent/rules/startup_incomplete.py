"""Training did not come up whole."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from gpudiag.agent.rules import _collectives
from gpudiag.agent.rules._blame import Blame
from gpudiag.agent.rules._collectives import by_sequence, by_words
from gpudiag.agent.rules._jobs import LOSS, Job, has_stepped, job_of, jobs, rank_of
from gpudiag.agent.rules._teams import INFO, STEPS
from gpudiag.agent.rules._train_words import Said, said
from gpudiag.agent.rules.contract import (
    Diagnosis,
    Evidence,
    Healthy,
    Limits,
    Rule,
    Suggestion,
    Threshold,
    Unknown,
    Verdict,
)
from gpudiag.agent.window import Window
from gpudiag.probes import Event

GPUS = "gpudiag_gpus"
EXPECTED = "gpudiag_gpus_expected"
NONFINITE = "gpudiag_train_nonfinite_total"
BUDGET = "gpudiag_budget_bytes"
MEASURED = ("gpudiag_torch_allocated_peak_bytes", "gpudiag_torch_allocated_bytes")
BACK = 7200.0
GIB = 2.0**30

_NO_DEVICE = re.compile(r"invalid device ordinal|No CUDA GPUs are available|busid .* not found")
_JOINED = re.compile(r"(\d+)/(\d+) clients joined|worker_count[=: ]+(\d+)")


@dataclass(slots=True)
class _Start:
    """A job that starts or has just started; `age` since it was first heard of, seconds."""

    job: Job
    age: float
    steps: float | None
    stepped: bool | None
    lines: list[tuple[Event, Said]] = field(default_factory=list)
    no_device: Event | None = None

    def of_kind(self, kind: str) -> list[tuple[Event, Said]]:
        return [told for told in self.lines if told[1].kind == kind]


def check(window: Window, limits: Limits) -> Iterator[Verdict]:
    """Judge every job from when it is first heard of until its first steps are done."""
    known = jobs(window)
    starts = {name: s for name, job in known.items() if (s := _start(window, job, limits))}
    for job in known.values():
        if job.name not in starts and window.latest(STEPS, job=job.name):
            yield Healthy(job.who())
    if not starts:
        return
    _read_logs(window, known, starts, limits)
    for start in starts.values():
        found = next((b for b in _examined(window, start, limits) if b), None)
        if found:
            yield _diagnosis(start, found)
        elif start.steps:
            yield Healthy(start.job.who())
        elif start.stepped is False and start.age >= limits["joined"] and _partly(start.job):
            yield Unknown(start.job.who(), (f"{INFO} of the ranks on other nodes",))


def _start(window: Window, job: Job, limits: Limits) -> _Start | None:
    points = window.latest(STEPS, job=job.name)
    most = max((p.value for p in points), default=None)
    if most is not None and most > limits["settled"]:
        return None
    stepped = has_stepped(window, job)
    if most is None and stepped is not False:
        return None
    spans = window.series(INFO, BACK, job=job.name) or window.series(STEPS, BACK, job=job.name)
    first = min((float(s.times[0]) for s in spans if len(s.times)), default=window.now)
    return _Start(job, window.now - first, most, stepped)


def _read_logs(
    window: Window, known: dict[str, Job], starts: dict[str, _Start], limits: Limits
) -> None:
    for event in window.events(limits["recent"]):
        if not event.source.startswith("log"):
            continue
        words = said(event.line)
        lacks = _NO_DEVICE.search(event.line)
        job = job_of(known, event, rank=words.rank if words else "") if words or lacks else None
        start = starts.get(job.name) if job else None
        if start is None or event.time < window.now - start.age - limits["before"]:
            continue
        if lacks:
            start.no_device = event
        if words:
            rank = rank_of(start.job, event, rank=words.rank)
            start.lines.append((event, words._replace(rank=rank)))


def _examined(window: Window, start: _Start, limits: Limits) -> Iterator[Blame | None]:
    if not start.steps:
        yield _cards(window, start)
        yield _unjoined(window, start, limits)
        yield _unread(start)
        yield _first_collective(window, start, limits)
    yield _first_loss(window, start, limits)
    yield _memory(window, start, limits)


def _cards(window: Window, start: _Start) -> Blame | None:
    for point in window.latest(GPUS):
        node = {"node": point.labels["node"]} if "node" in point.labels else {}
        expected = window.value(EXPECTED, **node)
        if expected is not None and point.value < expected:
            words = f"the node has {point.value:.0f} GPUs where {expected:.0f} are expected"
            evidence = [Evidence(GPUS, point.value, "", f"{expected:.0f}", point.labels)]
            return Blame("cards-missing", 0.9, words, evidence)
    if start.no_device:
        evidence = [Evidence(start.no_device.source, start.no_device.line)]
        return Blame("cards-missing", 0.8, "a rank asked for a GPU that is not there", evidence)
    return None


def _unjoined(window: Window, start: _Start, limits: Limits) -> Blame | None:
    for event, words in start.of_kind("join"):
        found = _JOINED.search(event.line)
        numbers = f": {found[0]}" if found else ""
        text = f"not all ranks joined{numbers}"
        return Blame(
            "ranks-not-joined", 0.9, text, [Evidence(event.source, event.line)], words.rank
        )
    absent = _absent(window, start.job)
    if absent and start.age >= limits["joined"]:
        world = start.job.world
        names = ", ".join(absent[:4]) + (" and others" if len(absent) > 4 else "")
        text = f"rank {names} of {world} never joined, {start.age / 60.0:.0f} min after the others"
        seen = float(len(start.job.ranks))
        evidence = [Evidence(INFO, seen, "ranks", f"{world}", {"job": start.job.name})]
        return Blame("ranks-not-joined", 0.85, text, evidence)
    return None


def _absent(window: Window, job: Job) -> list[str]:
    """Ranks that should be on this node and are not: the gaps, or all where it has them all."""
    seen = sorted(int(rank) for rank in job.ranks if rank.isdigit())
    if not seen or not job.world:
        return []
    here = max((p.value for m in (GPUS, EXPECTED) for p in window.latest(m)), default=0.0)
    # Nodes of a job have as many ranks each: 7 of 8 cannot be the whole of one.
    whole = job.world <= here or job.world % len(seen) != 0
    wanted = range(job.world) if whole else range(seen[0], seen[-1] + 1)
    return [str(rank) for rank in wanted if rank not in seen]


def _partly(job: Job) -> bool:
    return 0 < len(job.ranks) < job.world


def _unread(start: _Start) -> Blame | None:
    told = start.of_kind("data")
    if not told:
        return None
    event, words = told[-1]
    text = f"data could not be read: {words.text[:160]}"
    return Blame("data-read-errors-in-log", 0.85, text, [Evidence(event.source, event.line)])


def _first_collective(window: Window, start: _Start, limits: Limits) -> Blame | None:
    timeouts = start.of_kind("timeout")
    if timeouts:
        hang = by_words(start.job, timeouts)
        words = f"{hang.words}, and no step was ever done" if hang else "a collective timed out"
        evidence = [Evidence(event.source, event.line) for event, _ in timeouts[:3]]
        return Blame("comm-timeouts-in-log", 0.9, words, evidence)
    hang = by_sequence(window, start.job, BACK)
    if hang and window.now - hang.since >= limits["first_collective"]:
        words = f"{hang.words}, and no step was ever done"
        return Blame("comm-timeouts-in-log", 0.75, words, list(hang.evidence))
    return None


def _first_loss(window: Window, start: _Start, limits: Limits) -> Blame | None:
    labels = {"job": start.job.name}
    losses = window.latest(LOSS, **labels)
    odd = [p for p in losses if not np.isfinite(p.value) or p.value == 0.0]
    if odd and start.steps:
        evidence = [Evidence(LOSS, str(odd[0].value), "", "finite, not 0", odd[0].labels)]
        words = f"the first loss is {odd[0].value:g}"
        return Blame("first-loss-missing-or-abnormal", 0.85, words, evidence)
    bad = max((p.value for p in window.latest(NONFINITE, **labels)), default=0.0)
    if start.steps and bad >= max(1.0, 0.5 * start.steps):
        evidence = [Evidence(NONFINITE, bad, "steps", "0", labels)]
        words = f"{bad:.0f} of the first {start.steps:.0f} steps are not finite"
        return Blame("first-loss-missing-or-abnormal", 0.9, words, evidence)
    if start.steps == 0.0 and start.age >= limits["first_step"]:
        words = f"no first step {start.age / 60.0:.0f} min after the start"
        evidence = [Evidence(STEPS, 0.0, "steps", "1 or more", labels)]
        return Blame("first-loss-missing-or-abnormal", 0.7, words, evidence)
    return None


def _memory(window: Window, start: _Start, limits: Limits) -> Blame | None:
    for metric in MEASURED:
        used = {p.labels.get("rank", ""): p for p in window.latest(metric, job=start.job.name)}
        for point in window.latest(BUDGET, job=start.job.name, kind="total"):
            held = used.get(point.labels.get("rank", ""))
            if held is None or point.value <= 0.0:
                continue
            off = held.value / point.value
            above = off >= limits["above"] and held.value - point.value >= GIB
            below = off <= limits["below"] and (start.steps or 0.0) >= 2.0
            if above or below:
                rank = point.labels.get("rank", "")
                words = (
                    f"rank {rank} holds {held.value / GIB:.1f} GiB where {point.value / GIB:.1f}"
                    " were estimated"
                )
                expected = f"{point.value:.3g} by the budget"
                evidence = [Evidence(metric, held.value, "bytes", expected, held.labels)]
                return Blame("memory-far-from-estimate", 0.85, words, evidence, rank)
        if used:
            return None
    return None


def _diagnosis(start: _Start, found: Blame) -> Diagnosis:
    softer = found.cause == "memory-far-from-estimate"
    return Diagnosis(
        start.job.who(),
        found.cause,
        found.sure,
        f"{start.job.name or 'The job'} did not come up whole: {found.words}.",
        tuple(found.evidence),
        actions=_ACTIONS,
        severity="warning" if softer else None,
    )


_ACTIONS = (
    Suggestion("observe", "Read the first error of the rank that is named, not the last of all."),
    Suggestion("notify", "Tell the job's owner: it holds its GPUs and does nothing with them."),
    Suggestion("restart", "End it, mend the cause, and start it again: nothing is lost yet."),
)

RULE = Rule(
    check=check,
    reads=frozenset({INFO, STEPS, LOSS}) | _collectives.READS,
    events=frozenset({"log"}),
    thresholds={
        "settled": Threshold(50.0, "steps", "after these a job has started, whatever comes later"),
        "recent": Threshold(7200.0, "seconds", "a first collective may wait 30 min for its rank"),
        "before": Threshold(600.0, "seconds", "a log speaks before the process first reports"),
        "joined": Threshold(180.0, "seconds", "images, imports and rendezvous differ by minutes"),
        "first_collective": Threshold(120.0, "seconds", "NCCL itself is up within a minute"),
        "first_step": Threshold(
            900.0, "seconds", "loading weights and compiling take up to ten minutes"
        ),
        "above": Threshold(1.25, "ratio", "of the budget; its own error is about a tenth"),
        "below": Threshold(0.6, "ratio", "of the budget: something of the model is not there"),
    },
)
