"""No free block is large enough for a replica, and nobody is to blame but the size."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from gpudiag.agent.rules import _serving
from gpudiag.agent.rules._serving import Server
from gpudiag.agent.rules.contract import (
    Diagnosis,
    Evidence,
    Healthy,
    Limits,
    Rival,
    Rule,
    Subject,
    Suggestion,
    Threshold,
    Unknown,
    Verdict,
    subject,
)
from gpudiag.agent.window import Point, Window
from gpudiag.probes import Event

BUDGET = "gpudiag_budget_bytes"
TOTAL = "gpudiag_gpu_memory_total_bytes"
USED = "gpudiag_gpu_memory_used_bytes"
RESERVED = "gpudiag_gpu_memory_reserved_bytes"
GIB = 2.0**30
_SHARE = re.compile(r"Free memory on device.{0,40}?\(([\d.]+)/([\d.]+) GiB\)")
_NO_CACHE = re.compile(
    r"No available memory for the cache blocks|larger than the (?:maximum|total)"
)
_NO_GPU = re.compile(r"FailedScheduling.*Insufficient nvidia\.com/(?:gpu|mig)")
_POD = re.compile(r"\bpod/([^\s:]+)")


class _Free(NamedTuple):
    """The largest free block of one GPU, the largest GPU there is, and all that is free, bytes."""

    block: float
    whole: float
    all: float
    uuid: str


def check(window: Window, limits: Limits) -> Iterator[Verdict]:
    """Judge every replica whose minimum is known, or that was refused at its start."""
    planned = {p.labels.get("server", ""): p for p in window.latest(BUDGET, kind="total")}
    planned.pop("", None)
    refused = _refused(window, limits, planned)
    for name, need in planned.items():
        server = Server(name)
        if _works(window, server):
            yield Healthy(server.who)
        else:
            yield _judge(window, limits, need, refused.pop(server.who, None))
    for who, event in refused.items():
        yield _by_words(who, event)


def _works(window: Window, server: Server) -> bool:
    """Whether it runs, so that it has found its place; one that loads is filling it."""
    for metric in (_serving.READY, _serving.LOADED, _serving.RUNNING):
        if _serving.value(window, metric, server):
            return True
    return False


def _judge(window: Window, limits: Limits, need: Point, event: Event | None) -> Verdict:
    who = subject(server=need.labels["server"])
    free = _free(window)
    if free is None:
        return Unknown(who, (f"{TOTAL} and {USED}: what is free where",))
    loading = _serving.value(window, _serving.UP, Server(need.labels["server"])) == 1.0
    if need.value <= free.block or (loading and event is None):
        return Healthy(who)
    if event is None and free.whole < need.value <= free.all:
        # It may be spread over several GPUs, which its layout would tell.
        return Unknown(who, ("the replica's layout: whether it is spread over several GPUs",))
    larger = need.value > free.whole
    what = "the largest GPU has" if larger else "the largest free block is"
    size = free.whole if larger else free.block
    share = need.value / size if size > 0.0 else 0.0
    words = f"a replica needs {need.value / GIB:.1f} GiB, {what} {size / GIB:.1f} GiB"
    facts: tuple[Evidence, ...] = (
        Evidence(BUDGET, need.value, "bytes", "at most one free block", dict(need.labels)),
        Evidence("largest free block", free.block, "bytes", "", {"uuid": free.uuid}),
        Evidence("free on all GPUs", free.all, "bytes"),
    )
    if event is not None:
        facts += (Evidence(event.source, event.line),)
    sure = 0.92 if event is not None or share > limits["clearly"] else 0.8
    return _diagnosis(who, sure, words, facts, event.time if event else None)


def _free(window: Window) -> _Free | None:
    used = {p.labels.get("uuid"): p.value for p in window.latest(USED)}
    reserved = {p.labels.get("uuid"): p.value for p in window.latest(RESERVED)}
    blocks = [
        (p.value - used[uuid] - reserved.get(uuid, 0.0), p.value, uuid or "")
        for p in window.latest(TOTAL)
        if (uuid := p.labels.get("uuid")) in used
    ]
    if not blocks:
        return None
    block, _, uuid = max(blocks)
    return _Free(block, max(b[1] for b in blocks), sum(b[0] for b in blocks), uuid)


def _refused(window: Window, limits: Limits, planned: dict[str, Point]) -> dict[Subject, Event]:
    """Replicas that were refused at their start for their size alone, and the newest line of it."""
    found: dict[Subject, Event] = {}
    pending: dict[str, list[Event]] = {}
    for event in window.events(limits["remember"]):
        kind, _, name = event.source.partition(":")
        if kind == "log" and _size_alone(event.line, limits["alone"]):
            found[_named(event.fields.get("server", name), planned)] = event
        elif kind == "kubernetes" and _NO_GPU.search(event.line):
            pod = _POD.search(event.line)
            pending.setdefault(pod[1] if pod else "", []).append(event)
    for name, events in pending.items():
        if events[-1].time - events[0].time >= limits["pending"]:
            found[_named(name, planned)] = events[-1]
    working = {s.who for s in _serving.servers(window) if _works(window, s)}
    return {who: event for who, event in found.items() if who not in working}


def _named(name: str, planned: dict[str, Point]) -> Subject:
    known = [server for server in planned if server in name or name in server]
    server = max(known, key=len) if known and name else name
    return subject(server=server) if server else ()


@lru_cache(maxsize=40_000)
def _size_alone(line: str, alone: float) -> bool:
    """Whether a refusal names nobody else: all but a trifle of the device is free."""
    share = _SHARE.search(line)
    if share:
        return float(share[1]) >= alone * float(share[2])
    return _NO_CACHE.search(line) is not None


def _by_words(who: Subject, event: Event) -> Diagnosis:
    sure = 0.7 if event.source == "kubernetes" else 0.8
    return _diagnosis(
        who, sure, event.line.strip()[:300], (Evidence(event.source, event.line),), event.time
    )


def _diagnosis(
    who: Subject, sure: float, words: str, facts: tuple[Evidence, ...], since: float | None
) -> Diagnosis:
    name = dict(who).get("server", "A replica")
    return Diagnosis(
        who,
        "replica-does-not-fit",
        sure,
        f"{name} does not fit: {words.rstrip('.')}.",
        facts,
        rivals=(
            Rival("memory-held-by-others", "no refusal names somebody who holds what is missing"),
        ),
        actions=_ACTIONS,
        since=since,
    )


_ACTIONS = (
    Suggestion("notify", "`gpudiag doctor`: what is free where; pack small replicas together."),
    Suggestion("degrade", "Shorter length, smaller cache, lower precision, or more GPUs for it."),
)

RULE = Rule(
    check=check,
    events=frozenset({"kubernetes", "log"}),
    hold=90.0,
    clear=60.0,
    thresholds={
        "remember": Threshold(900.0, "seconds", "how long a refusal speaks of the present"),
        "pending": Threshold(120.0, "seconds", "a rolling update frees its GPU by then"),
        "alone": Threshold(0.85, "ratio", "of the device free: contexts take some percent of it"),
        "clearly": Threshold(1.1, "ratio", "of the need to the block: beyond a budget's error"),
    },
)
