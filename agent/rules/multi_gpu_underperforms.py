"""Steps are slower than the job's own baseline or its parts explain."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from gpudiag.agent.rules import _slow_hardware, _slow_parts, _steps
from gpudiag.agent.rules._blame import Blame
from gpudiag.agent.rules._jobs import Job, jobs
from gpudiag.agent.rules._steps import HISTORY, Picture, middle, picture
from gpudiag.agent.rules._teams import CHECKPOINT, COMM, COMPUTE, DATA, STEP
from gpudiag.agent.rules._throttle import CLOCK
from gpudiag.agent.rules._work import READS as WORK
from gpudiag.agent.rules._work import work_ratio
from gpudiag.agent.rules.contract import (
    UNDETERMINED,
    Diagnosis,
    Evidence,
    Healthy,
    Limits,
    Rival,
    Rule,
    Suggestion,
    Threshold,
    Verdict,
)
from gpudiag.agent.window import Window


@dataclass(frozen=True, slots=True)
class _Signs:
    """In what way steps are worse than they need be: any of them is the symptom."""

    slow: bool
    spiky: bool
    waiting: bool
    starved: bool
    uneven: bool

    @property
    def any(self) -> bool:
        return self.slow or self.spiky or self.waiting or self.starved or self.uneven


def check(window: Window, limits: Limits) -> Iterator[Verdict]:
    """Judge every job whose step time is told, against its own history and its parts."""
    for job in jobs(window).values():
        if not window.latest(STEP, job=job.name):
            continue
        if _fine(window, job, limits):
            yield Healthy(job.who())
            continue
        seen = picture(window, job)
        if seen is None:
            continue
        signs = _signs(window, seen, limits)
        found = _blame(window, seen, signs, limits) if signs.any else None
        if found:
            yield _diagnosis(seen, found)
        elif signs.slow:
            yield _open(window, seen)
        else:
            yield Healthy(job.who())


def _fine(window: Window, job: Job, limits: Limits) -> bool:
    """Whether the newest readings alone show that nothing is amiss: cheap, for the usual case."""
    steps = {p.labels.get("rank"): p.value for p in window.latest(STEP, job=job.name)}
    newest = float(np.median([*steps.values()]))
    history = window.minutes(STEP, HISTORY, "mean", job=job.name, rank=next(iter(steps)) or "")
    if not history or len(history[0].values) < 3 or newest <= 0.0:
        return False
    usual = np.sort(history[0].values)
    best, lately = float(usual[len(usual) // 5]), history[0].values[-15:]
    if max(newest, float(lately.mean())) > (1.0 + 0.7 * limits["slow"]) * best:
        return False
    for metric, most in ((COMM, limits["comm"]), (DATA, limits["data"])):
        points = window.latest(metric, job=job.name)
        if points and max(p.value for p in points) > 0.7 * most * newest:
            return False
    work = [p.value for p in window.latest(COMPUTE, job=job.name)]
    return not work or max(work) - min(work) < 0.5 * limits["uneven"] * newest


def _signs(window: Window, seen: Picture, limits: Limits) -> _Signs:
    line = seen.line
    base = seen.base * max(1.0, work_ratio(window, seen))
    slow = base > 0.0 and (
        seen.step >= (1.0 + limits["slow"]) * base
        and seen.step >= base + limits["sigmas"] * seen.noise
        and float(np.sort(line[seen.recent])[seen.recent.sum() // 4]) >= base
        + HALF * (seen.step - base)
    )  # fmt: skip
    beyond = _slow_parts.over(seen)
    paused = float(np.mean(beyond / np.maximum(line, 1e-9)))
    spiky = not slow and seen.base > 0.0 and paused >= limits["pauses"]
    comm, data = _slow_parts.share(seen, COMM), _slow_parts.share(seen, DATA)
    waiting = bool(np.nan_to_num(comm).min() >= limits["comm"])
    if _slow_parts.degree(seen, "pp") > 1:
        waiting = bool(np.nan_to_num(middle(comm)) >= 0.6 * limits["comm"])
    starved = bool(np.nan_to_num(data).max() >= limits["data"])
    uneven = False
    if seen.known(COMPUTE) and len(seen.ranks) > 1:
        work = seen.of[COMPUTE][seen.recent]
        work = np.sort(work[~np.isnan(work).any(axis=1)], axis=1)
        spans = work[:, -1] - np.median(work[:, :-1], axis=1)
        uneven = len(spans) > 0 and float(np.median(spans)) >= 0.07 * seen.step
    return _Signs(bool(slow), spiky, waiting, starved, uneven)


HALF = 0.5


def _blame(window: Window, seen: Picture, signs: _Signs, limits: Limits) -> Blame | None:
    """The first cause whose evidence bears it out, in the order of what explains what."""
    return next((found for found in _examined(window, seen, signs, limits) if found), None)


def _examined(
    window: Window, seen: Picture, signs: _Signs, limits: Limits
) -> Iterator[Blame | None]:
    if signs.slow or signs.spiky:
        yield _slow_parts.checkpointing(window, seen, limits)
    if signs.slow or signs.starved:
        yield _slow_parts.starved(window, seen, limits)
    if signs.slow or signs.uneven:
        yield _slow_hardware.throttled(window, seen)
        yield _slow_hardware.pcie(window, seen)
        yield _slow_hardware.nvlink(window, seen)
    yield _slow_parts.retrying(window, seen, limits)
    if signs.slow or signs.spiky:
        yield _slow_hardware.contended(window, seen)
    yield _slow_parts.unbalanced(window, seen, limits)
    if signs.slow or signs.waiting:
        yield _waiting(window, seen, signs, limits)


def _waiting(window: Window, seen: Picture, signs: _Signs, limits: Limits) -> Blame | None:
    """What makes ranks wait in communication, all of them alike."""
    grown = seen.rise(COMM)
    grew = signs.slow and (grown >= HALF * seen.slower or COMM not in seen.of)
    share = float(np.nan_to_num(middle(_slow_parts.share(seen, COMM))))
    if grew and (found := _slow_hardware.congested(window, seen, max(grown, 1e-9))):
        return found
    if signs.slow and not grew and COMM in seen.of:
        return None
    for found in (
        _slow_hardware.topology(window, seen, share),
        _slow_parts.bubbles(window, seen, limits),
        _slow_parts.exposed(window, seen, limits),
    ):
        if found:
            return found
    return None


def _open(window: Window, seen: Picture) -> Diagnosis:
    """Slow, and no cause bears out: unexplained where all was measured, undetermined else."""
    wanted = [m for m in (COMPUTE, DATA) if not seen.known(m)]
    wanted += [COMM] if len(seen.ranks) > 1 and not seen.known(COMM) else []
    if not window.latest(CLOCK) and seen.rise(COMPUTE) >= HALF * seen.slower:
        wanted.append(CLOCK)
    ruled = [
        Rival(cause, f"its {what} grew by {seen.rise(metric) * 1e3:.0f} ms only")
        for cause, what, metric in (
            ("comm-not-overlapped", "communication wait", COMM),
            ("data-starvation", "data wait", DATA),
            ("checkpoint-stall", "checkpointing", CHECKPOINT),
        )
        if metric in seen.of
    ]
    if wanted:
        found = Blame(UNDETERMINED, 0.5, "what it spends the time on is not measured")
    else:
        words = "compute, data and communication were looked at and explain it not"
        if seen.rise(COMPUTE) >= HALF * seen.slower:
            words = "compute grew on all ranks alike, at the clocks of before"
        found = Blame("throughput-regression-unexplained", 0.7, words)
    return _diagnosis(seen, found, tuple(ruled), tuple(wanted))


def _diagnosis(
    seen: Picture, found: Blame, rivals: tuple[Rival, ...] = (), missing: tuple[str, ...] = ()
) -> Diagnosis:
    name = seen.job.name or "the job"
    expected = f"{seen.base:.3g} as before" if seen.base else ""
    changed = seen.base and seen.slower >= 0.05 * seen.base
    takes = f"A step of {name} takes {seen.step * 1e3:.0f} ms"
    takes += f", {seen.slower / seen.base:.0%} more than it did" if changed else ""
    return Diagnosis(
        seen.job.who(),
        found.cause,
        found.sure,
        f"{takes}: {found.words}.",
        (
            Evidence(STEP, round(seen.step, 4), "seconds", expected, {"job": seen.job.name}),
            *found.evidence,
        ),
        rivals=rivals,
        missing=missing,
        actions=_ACTIONS,
        since=seen.since() if changed else None,
    )


_ACTIONS = (
    Suggestion("observe", "Compare the parts of a step now and before: `gpudiag top`."),
    Suggestion(
        "notify", "Tell the job's owner the cause; its section of the page says the remedy."
    ),
)

RULE = Rule(
    check=check,
    reads=_steps.READS | _slow_parts.READS | _slow_hardware.READS | WORK,
    trends=_steps.TRENDS,
    hold=0.0,
    clear=90.0,
    thresholds={
        "slow": Threshold(0.10, "ratio", "above the job's own; placement and noise stay under it"),
        "sigmas": Threshold(4.0, "count", "of the scatter from bin to bin"),
        "pauses": Threshold(0.08, "ratio", "of all time lost in pauses; under it few would ask"),
        "comm": Threshold(
            0.30, "ratio", "of a step exposed; well overlapped jobs show 5 to 15 % (MegaScale)"
        ),
        "data": Threshold(0.20, "ratio", "of a step spent waiting for the loader"),
        "uneven": Threshold(
            0.10, "ratio", "slowest over median, in means over seconds: 1.38 a step in known cases"
        ),
        "same": Threshold(0.75, "ratio", "of the time the same rank: that is a straggler"),
        "bubble": Threshold(0.20, "ratio", "of the work; below it a pipeline is well filled"),
    },
)
