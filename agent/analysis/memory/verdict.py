"""One verdict over a device: is anything wrong with its memory, what, how do we know, what next."""

from __future__ import annotations

from collections.abc import Callable

from gpudiag.agent.analysis.memory import causes, figures, fragmented, startup, words
from gpudiag.agent.analysis.memory.causes import Rival
from gpudiag.agent.analysis.memory.growth import rises
from gpudiag.agent.analysis.memory.pools import MIB
from gpudiag.agent.analysis.memory.ruling import Case, Kind, Verdict
from gpudiag.agent.analysis.memory.timeline import Timeline
from gpudiag.agent.analysis.memory.trend import FEW, judge


def verdict(case: Case) -> Verdict:
    """The first that holds: what fails now, what grows, what only looks like it, nothing."""
    for judged in _JUDGES:
        if said := judged(case):
            return said
    return _cannot_tell(case)


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


def _spread(case: Case) -> Verdict | None:
    """Live memory that grows though no single call site does: many sites, a little each."""
    points = case.points
    if not points or not points.cyclic or points.points < FEW:
        return None
    trend = judge(points.xs, points.live, least=MIB)
    if trend.shape != "grows" or rises(points.live) < FEW - 1:
        return None
    most = sorted(case.found, key=lambda g: -g.grown)[:3]
    return Verdict(
        kind="leak",
        confidence=0.6,
        summary=f"Live memory grows by {figures.size(trend.rate)} per {points.unit}, at no single"
        " call site.",
        evidence=(
            f"live memory at {points.points} moments: {figures.change(points.live)}",
            *(f"{g.site.short}: {figures.signed(g.grown)}, {g.shape}" for g in most),
            *words.reconciled(case.sums),
        ),
        next=("See which of the sites below are alike: they may be one cache.",),
        missing=("a census of live tensors (--census): it names who holds them",),
        severity="warning",
        symptom=causes.SYMPTOM,
        cause=startup.UNDETERMINED,
        rivals=(Rival(causes.CACHING, "live blocks grow, not the allocator's cache"),),
    )


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
    open_ = trend.shape in ("too few", "grows") or any(g.shape == "grows" for g in case.found)
    if open_ or (not points.cyclic and trend.shape not in ("flat", "swings")):
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
    fragmented.stuck, _leaks, _spread, _outside, fragmented.cache, _oom, _swings, _calm,
)  # fmt: skip
