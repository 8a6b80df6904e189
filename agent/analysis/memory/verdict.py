"""One verdict over a device: is anything wrong with its memory, what, how do we know, what next."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

import msgspec

from gpudiag.agent.analysis.memory import causes, figures, startup, words
from gpudiag.agent.analysis.memory.asked import Asked
from gpudiag.agent.analysis.memory.causes import Rival
from gpudiag.agent.analysis.memory.digest import Device
from gpudiag.agent.analysis.memory.growth import Growth
from gpudiag.agent.analysis.memory.outlook import Outlook, Sums
from gpudiag.agent.analysis.memory.requests import PINNED, PRIVATE, SHAPES, STREAMS, Request
from gpudiag.agent.analysis.memory.timeline import Timeline
from gpudiag.agent.analysis.memory.trend import FEW, judge

Kind = Literal[
    "leak", "warm-up", "sawtooth", "caching", "fragmentation", "outside torch", "host side",
    "out of memory", "steady", "cannot tell",
]  # fmt: skip

MIB = 2**20
SHARE = 0.1
"""Of what is reserved: a smaller idle part explains nothing (healthy dumps have up to 0.13)."""


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What it is, with `confidence` 0-1, the evidence and what to do next, in words.

    `symptom` and `cause` are the documented ones, "" where nothing is wrong; `runbook` is what
    `gpudiag runbook` takes.
    """

    kind: Kind
    confidence: float
    summary: str
    evidence: tuple[str, ...] = ()
    next: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    severity: str = ""
    symptom: str = ""
    cause: str = ""
    rivals: tuple[Rival, ...] = ()

    @property
    def runbook(self) -> str:
        return f"{self.symptom}#{self.cause}" if self.cause else self.symptom


class Case(NamedTuple):
    """All that a verdict may look at."""

    device: Device
    points: Timeline | None
    found: Sequence[Growth]
    sums: Sums | None
    requests: Sequence[Request]
    outlook: Outlook | None
    asked: Asked
    step: int | None


def verdict(case: Case) -> Verdict:
    """The first that holds: what fails now, what grows, what only looks like it, nothing."""
    for judged in _JUDGES:
        if said := judged(case):
            return said
    return _cannot_tell(case)


def _stuck(case: Case) -> Verdict | None:
    """A request that failed, or would, although the free bytes together would do."""
    for request in case.requests:
        if request.answer == "no" and request.cause:
            failed = request.kind == "failed"
            return Verdict(
                kind="fragmentation",
                confidence=0.9 if failed else 0.75,
                summary=f"{'A request' if failed else 'The typical request'} of"
                f" {figures.size(request.size)} cannot be served: {request.why}.",
                evidence=words.fragments(case.device),
                next=_FREE[request.cause],
                severity="critical" if failed else "warning",
                symptom="fragmentation",
                cause=request.cause,
            )
    return None


_FREE = {
    PRIVATE: (
        "Capture fewer shapes, or let all graphs share one pool (graph_pool_handle).",
        "Free what a capture or a sleeping engine no longer needs: its pool goes with it.",
    ),
    STREAMS: (
        "Allocate on the stream that uses the memory, or on one side stream instead of many.",
        "torch.cuda.empty_cache() at a step boundary, once the side stream's blocks are free.",
    ),
    PINNED: (
        "Make what lives long before what lives short: see which line holds each segment below.",
        "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
    ),
    SHAPES: (
        "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
        "Pad lengths to a few sizes.",
    ),
}


def _leaks(case: Case) -> Verdict | None:
    leaks = [g for g in case.found if g.leaks]
    if not leaks or case.points is None:
        return None
    held_by = causes.holder(leaks[0], case.asked.census)
    cause = causes.of_leak(leaks, held_by)
    sure = leaks[0].confidence
    return Verdict(
        kind="leak",
        confidence=sure,
        summary=words.leak(leaks, case.points, held_by),
        evidence=(
            *words.leak_evidence(leaks, case.points, cause.why),
            *words.reconciled(case.sums),
        ),
        next=words.after_leak(cause.cause, held_by),
        missing=cause.missing if sure >= 0.75 else (*cause.missing, *_MORE),
        severity="warning",
        symptom=causes.SYMPTOM,
        cause=cause.cause,
        rivals=cause.rivals,
    )


_MORE = ("eight or more snapshots at the same phase of the step: two cannot rule out a warm-up",)


def _outside(case: Case) -> Verdict | None:
    points, sums = case.points, case.sums
    if not points or not sums:
        return None
    used, host = case.asked.used, case.asked.host
    if len(used) == points.points and sums.outside and sums.outside > MIB:
        beside = [u - r for u, r in zip(used, points.reserved, strict=True)]
        trend = judge(points.xs, beside, least=MIB)
        if trend.shape == "grows":
            return _grows_beside(
                "outside torch", causes.COMM, trend.rate, trend.cycles, points, "device memory"
            )
    if len(host) == points.points and sums.host and sums.host > MIB:
        trend = judge(points.xs, host, least=MIB)
        if trend.shape == "grows":
            return _grows_beside(
                "host side", causes.LOADING, trend.rate, trend.cycles, points, "host memory"
            )
    return None


def _grows_beside(
    kind: Kind, cause: str, rate: float, cycles: int, points: Timeline, what: str
) -> Verdict:
    return Verdict(
        kind=kind,
        confidence=0.8 if cycles >= FEW else 0.5,
        summary=f"{what.capitalize()} outside torch's allocator grows by"
        f" {figures.size(rate)} per {points.unit}; what torch holds does not.",
        evidence=(f"torch's live memory: {figures.change(points.live)}",),
        next=(
            "No stack exists for it: note at which moments it rises (process groups, engines or"
            " loader workers being made).",
        ),
        missing=() if cycles >= FEW else _MORE,
        severity="warning",
        symptom=causes.SYMPTOM,
        cause=cause,
        rivals=(Rival(causes.RETAINED, "what torch holds is flat"),),
    )


def _cache(case: Case) -> Verdict | None:
    points = case.points
    if not points or not case.sums or case.sums.reserved <= MIB:
        return None
    trend = judge(points.xs, points.reserved, least=MIB)
    flat = case.sums.live < 0.3 * case.sums.reserved
    if trend.shape != "grows" or not flat:
        return None
    held = sum(pool.held for pool in case.device.pools)
    split = held > 0.5 * case.sums.reserved and held > SHARE * case.device.reserved
    cause = causes.FRAGMENTS if split else causes.CACHING
    return Verdict(
        kind="fragmentation" if split else "caching",
        confidence=0.75 if trend.cycles >= FEW else 0.5,
        summary=f"Reserved memory grew by {figures.size(case.sums.reserved)} while live memory"
        f" stayed: {'free pieces lie between live blocks' if split else 'the cache grows'}.",
        evidence=(
            f"reserved: {figures.change(points.reserved)}; live: {figures.change(points.live)}",
            *words.fragments(case.device),
        ),
        next=_FREE[SHAPES] if split else ("Benign while no allocation is retried: watch it.",),
        severity="warning" if split else "info",
        symptom=causes.SYMPTOM,
        cause=cause,
        rivals=(Rival(causes.RETAINED, "live memory is flat"),),
    )


def _oom(case: Case) -> Verdict | None:
    if not case.device.ooms:
        return None
    device, failed = case.device, case.device.ooms[-1]
    early = startup.at_start(device, case.step)
    cause = startup.cause(device, case.asked)
    live, left = figures.size(device.live), figures.size(failed.device_free)
    when = " within the first steps" if early else ""
    return Verdict(
        kind="out of memory",
        confidence=0.8,
        summary=f"A request of {figures.size(failed.size)} failed at"
        f" {device.sites[failed.site].short}{when}: {live} are live and the device had {left}"
        " left. Nothing is seen to grow.",
        evidence=(*words.largest(device), cause.why),
        next=("See what is held below; the largest part is what to make smaller.",),
        missing=cause.missing,
        severity="critical",
        symptom=startup.SYMPTOM if early else "",
        cause=cause.cause if early else "",
        rivals=cause.rivals,
    )


def _swings(case: Case) -> Verdict | None:
    points = case.points
    total = max((g.swing for g in case.found), default=0)
    swinging = [g for g in case.found if g.shape == "swings" and g.swing >= max(MIB, total // 2)]
    if not points or points.points < FEW or not points.cyclic or not swinging:
        return None
    first = swinging[0]
    cycles = first.freed_elsewhere
    return Verdict(
        kind="sawtooth",
        confidence=0.8,
        summary=f"{first.site.short} rises by up to {figures.size(first.swing)} and falls back:"
        f" {'as gc frees reference cycles' if cycles else 'a list that is emptied'}, no leak.",
        evidence=(f"at {first.site.short}: {figures.change(first.series)}",),
        next=(
            ("`torch.utils.viz._cycles.warn_tensor_cycles()` prints the cycles.",)
            if cycles
            else ("Nothing, while its peak fits.",)
        ),
        missing=(causes.TEMPORARY + ": a gc.collect() alone would settle it",) if cycles else (),
        severity="info" if cycles else "",
        symptom=causes.SYMPTOM if cycles else "",
        cause=causes.TEMPORARY if cycles else "",
    )


def _calm(case: Case) -> Verdict | None:
    points = case.points
    if not points or points.points < FEW:
        return None
    trend = judge(points.xs, points.live, least=max(MIB, 0.001 * max(points.live)))
    if trend.shape == "too few" or (not points.cyclic and trend.shape not in ("flat", "swings")):
        return None
    warmed = trend.shape == "warmed up" or _late_start(points)
    grown = next((g for g in sorted(case.found, key=lambda g: -g.grown)), None)
    what = f" (most at {grown.site.short}: {figures.size(grown.grown)})" if grown else ""
    return Verdict(
        kind="warm-up" if warmed else "steady",
        confidence=0.85 if points.cyclic else 0.6,
        summary=f"Memory rose at first{what} and then stayed." if warmed else "Nothing grows.",
        evidence=(f"live memory at {points.points} moments: {figures.change(points.live)}",),
        next=("Nothing.",),
    )


def _late_start(points: Timeline) -> bool:
    """One rise right after the first point, as Adam's states make it."""
    span = max(points.live) - min(points.live)
    return points.live[1] - points.live[0] >= 0.9 * span > 0.1 * points.live[-1]


def _cannot_tell(case: Case) -> Verdict:
    points = case.points
    missing = [
        "eight or more snapshots at the same phase of the step, 50 steps apart"
        if points
        else "a second snapshot, 100 steps later, or one taken with a recording of ten steps"
    ]
    if not case.device.framed:
        missing.insert(
            0, "call sites: torch.cuda.memory._record_memory_history(max_entries=100000)"
        )
    changed = [g for g in case.found if g.grown > 0][:3]
    short = "whose recording spans no few steps that can be told apart"
    recording = short if case.device.entries else "without a recording"
    told = tuple(f"{g.site.short}: {figures.signed(g.grown)} ({g.change})" for g in changed)
    return Verdict(
        kind="cannot tell",
        confidence=0.0,
        summary="Whether memory grows cannot be told from "
        + (f"{points.points} points." if points else f"one snapshot {recording}."),
        evidence=told or words.largest(case.device),
        next=("Capture more, then call this again:",),
        missing=tuple(missing),
    )


_JUDGES: tuple[Callable[[Case], Verdict | None], ...] = (
    _stuck, _leaks, _outside, _cache, _oom, _swings, _calm,
)  # fmt: skip
