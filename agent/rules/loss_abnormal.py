"""Loss or throughput is not what it should be."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

import numpy as np

from gpudiag.agent.rules import _per_step
from gpudiag.agent.rules._jobs import LOSS, Job, job_of, jobs
from gpudiag.agent.rules._losses import Apart, Rise, apart, rise
from gpudiag.agent.rules._per_step import Drop, drop
from gpudiag.agent.rules._teams import STEPS
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
from gpudiag.agent.window import Series, Window
from gpudiag.agent.window.events import MAX_EVENTS
from gpudiag.probes import Event

NORM = "gpudiag_train_grad_norm"
NONFINITE = "gpudiag_train_nonfinite_total"
BACK = 1800.0
HISTORY = 6 * 3600.0

_NOT_FINITE = re.compile(
    r"\b(?:lm |train(?:ing)?[_ ]|total[_ ])?loss\b[\"']?\s*(?:[:=|]|is|became|of)?\s*"
    r"(?:tensor\()?[-+]?(?:nan|inf(?:inity)?)\b"
    r"|(?:nan|inf) (?:loss|in (?:the )?(?:loss|gradient|local grad))|found NaN in",
    re.IGNORECASE,
)


def check(window: Window, limits: Limits) -> Iterator[Verdict]:
    """Judge every job that tells its loss, or what its steps hold."""
    known = jobs(window)
    told = _told(window, known, limits)
    for job in known.values():
        found = _not_finite(window, job, told.get(job.name), limits)
        if found is None:
            found = _of_curve(window, job, limits)
        fell = drop(window, job, limits) if found is None and _less(window, job, limits) else None
        if fell:
            found = _dropped(job, fell)
        if found:
            yield found
            if dict(found.subject).get("rank"):
                yield Healthy(job.who())
        elif window.latest(LOSS, job=job.name):
            yield Healthy(job.who())
            yield from (Healthy(job.who(rank)) for rank in job.ranks)
        elif _lost(window, job):
            yield Unknown(job.who(), (f"{NONFINITE}: the loss is told no more, as when it is NaN",))


def _told(window: Window, known: dict[str, Job], limits: Limits) -> dict[str, Event]:
    """The newest log line of each job that calls the loss not finite."""
    found = {}
    for event in window.events(limits["recent"]):
        if event.source.startswith("log") and _says_nan(event.line):
            job = job_of(known, event)
            if job:
                found[job.name] = event
    return found


@lru_cache(maxsize=2 * MAX_EVENTS)
def _says_nan(line: str) -> bool:
    return bool(_NOT_FINITE.search(line))


def _lost(window: Window, job: Job) -> bool:
    """Whether steps go on and the loss that was told before is told no more."""
    seen = window.seen(LOSS, job=job.name)
    return bool(seen and window.latest(STEPS, job=job.name)) and not window.seen(
        NONFINITE, job=job.name
    )


def _not_finite(window: Window, job: Job, line: Event | None, limits: Limits) -> Diagnosis | None:
    infinite = [p for p in window.latest(LOSS, job=job.name) if np.isinf(p.value)]
    counted = _counted(window, job, limits)
    if not (infinite or counted or line):
        return None
    evidence = [Evidence(LOSS, str(p.value), "", "finite", p.labels) for p in infinite[:2]]
    since = counted[1] if counted else line.time if line else None
    words = "its loss is not finite"
    if counted:
        number, since = counted
        evidence.append(Evidence(NONFINITE, number, "steps", "0", {"job": job.name}))
        words = f"{number:.0f} steps in a row had a loss or gradient that is not finite"
    if line:
        evidence.append(Evidence(line.source, line.line))
    sure = 0.95 if counted and (infinite or line) else 0.9
    return _diagnosis(job, "loss-not-finite", sure, words, evidence, since, "critical")


def _counted(window: Window, job: Job, limits: Limits) -> tuple[float, float] | None:
    """Steps that were not finite lately, and since when; a few skipped ones are no more than that.

    A loss scale that grows overflows now and then: the step is skipped and the next one is fine.
    """
    if not any(p.value for p in window.latest(NONFINITE, job=job.name)):
        return None
    for series in window.series(NONFINITE, limits["recent"], job=job.name):
        rose = np.flatnonzero(np.diff(series.values) > 0.0)
        if len(series.values) < 3 or not len(rose) or rose[-1] < len(series.values) - 3:
            continue
        last = np.diff(series.values)[-4:]
        number = float(series.values[-1] - series.values[-1 - len(last)])
        steps = _steps_in(window, series, len(last))
        lasting = (last > 0.0).sum() >= min(3, len(last))
        mostly = steps is None or number >= limits["mostly"] * steps
        if lasting and mostly and number >= 3.0:
            start = rose[0]
            for one, after in zip(rose[::-1][1:], rose[::-1], strict=False):
                if after - one > 1:
                    start = after
                    break
            total = float(series.values[-1] - series.values[start])
            return total, float(series.times[start + 1])
    return None


def _steps_in(window: Window, series: Series, readings: int) -> float | None:
    labels = {k: series.labels[k] for k in ("job", "rank") if k in series.labels}
    since = float(series.times[-1 - readings])
    for steps in window.series(STEPS, window.now - since + 1e-6, **labels):
        if len(steps.values) > 1:
            return float(steps.values[-1] - steps.values[0])
    return None


def _of_curve(window: Window, job: Job, limits: Limits) -> Diagnosis | None:
    newest = [p.value for p in window.latest(LOSS, job=job.name)]
    norms = [p.value for p in window.latest(NORM, job=job.name)]
    if not newest or _calm(window, job, newest, norms):
        return None
    by_rank = _finite(window.series(LOSS, BACK, job=job.name))
    if not by_rank:
        return None
    left = apart(by_rank, limits) if len(by_rank) > 1 else None
    metric = LOSS
    if left is None and len(norms) > 1 and max(norms) > 1.01 * min(norms):
        left, metric = apart(_finite(window.series(NORM, BACK, job=job.name)), limits), NORM
    if left:
        return _left(job, left, metric)
    rows = min(len(s.values) for s in by_rank.values())
    values = np.median(np.column_stack([s.values[-rows:] for s in by_rank.values()]), axis=1)
    times = next(iter(by_rank.values())).times[-rows:]
    older = window.minutes(LOSS, HISTORY, "mean", job=job.name)
    if rows and older and len(older[0].times) > 1:
        before = (older[0].times + 60.0 < times[0]) & np.isfinite(older[0].values)
        times = np.concatenate([older[0].times[before], times])
        values = np.concatenate([older[0].values[before], values])
    risen = rise(times, values, limits)
    return _risen(window, job, risen, limits) if risen else None


def _calm(window: Window, job: Job, newest: list[float], norms: list[float]) -> bool:
    """Whether the newest readings alone show that nothing is amiss: cheap, for the usual case."""
    known = window.minutes(LOSS, HISTORY, "mean", job=job.name)
    if not known or len(known[0].values) < 3:
        return False
    best = float(known[0].values.min())
    alike = max(newest) - min(newest) <= 0.1 * abs(best)
    same = not norms or max(norms) <= 1.01 * min(norms)
    return alike and same and max(newest) <= best + 0.15 * abs(best)


def _finite(found: list[Series]) -> dict[str, Series]:
    kept = {}
    for series in found:
        there = np.isfinite(series.values)
        if there.any():
            rank = series.labels.get("rank", "")
            kept[rank] = Series(series.labels, series.times[there], series.values[there])
    return kept


def _risen(window: Window, job: Job, risen: Rise, limits: Limits) -> Diagnosis:
    lasting = window.now - risen.since >= limits["lasting"] and risen.samples >= limits["samples"]
    diverging = lasting and not risen.falling
    norm = max((p.value for p in window.latest(NORM, job=job.name)), default=None)
    evidence = [
        Evidence(LOSS, round(risen.value, 4), "", f"{risen.best:.4g} as before", {"job": job.name})
    ]
    if norm is not None:
        evidence.append(Evidence(NORM, round(norm, 4), "", "", {"job": job.name}))
    words = f"its loss jumped from {risen.best:.3g} to {risen.value:.3g}"
    if diverging:
        span = (window.now - risen.since) / 60.0
        words = f"its loss left {risen.best:.3g} {span:.1f} min ago and stands at {risen.value:.3g}"
    cause = "loss-diverging" if diverging else "loss-spike"
    return _diagnosis(job, cause, 0.85, words, evidence, risen.since)


def _left(job: Job, left: Apart, metric: str) -> Diagnosis:
    what = "loss" if metric == LOSS else "gradient norm"
    words = (
        f"the {what} of rank {left.rank} is {left.own:.4g} where its peers have {left.peers:.4g}"
    )
    labels = {"job": job.name, "rank": left.rank}
    evidence = [Evidence(metric, round(left.own, 5), "", f"{left.peers:.4g}, as its peers", labels)]
    return _diagnosis(job, "rank-divergence", 0.85, words, evidence, left.since, rank=left.rank)


def _less(window: Window, job: Job, limits: Limits) -> bool:
    """Whether the last minutes' steps hold less than others did: cheap, before the full look."""
    for metric in (_per_step.TOKENS, _per_step.SAMPLES):
        counted = window.minutes(metric, HISTORY, "last", job=job.name)
        steps = window.minutes(STEPS, HISTORY, "last", job=job.name)
        if counted and steps and len(counted[0].values) == len(steps[0].values) >= 4:
            made, gone = np.diff(steps[0].values), np.diff(counted[0].values)
            each = gone[made > 0.0] / made[made > 0.0]
            return len(each) < 3 or bool(
                each[-2:].min() < (1.0 - 0.6 * limits["dropped"]) * each.max()
            )
        if counted:
            return True
    return False


def _dropped(job: Job, fell: Drop) -> Diagnosis:
    what = "tokens" if fell.metric == _per_step.TOKENS else "samples"
    words = (
        f"a step holds {fell.now:.0f} {what} where it held {fell.before:.0f}, and takes"
        f" {fell.seconds * 1e3:.0f} ms as before"
    )
    expected = f"{fell.before:.0f} a step"
    evidence = [Evidence(fell.metric, round(fell.now, 1), "a step", expected, {"job": job.name})]
    return _diagnosis(job, "throughput-drop", 0.88, words, evidence, fell.since)


def _diagnosis(
    job: Job,
    cause: str,
    sure: float,
    words: str,
    evidence: list[Evidence],
    since: float | None,
    severity: str = "warning",
    rank: str = "",
) -> Diagnosis:
    return Diagnosis(
        job.who(rank or None),
        cause,
        sure,
        f"Training of {job.name or 'the job'}: {words}.",
        tuple(evidence),
        actions=_ACTIONS,
        severity="critical" if severity == "critical" else "warning",
        since=since,
    )


_ACTIONS = (
    Suggestion("observe", "Look at the batches and the learning rate of the steps it began at."),
    Suggestion("notify", "Tell the job's owner; each further step on a broken state is lost."),
    Suggestion("restart", "Go back to the checkpoint before it began, skip the batches at fault."),
)

RULE = Rule(
    check=check,
    reads=frozenset({LOSS, NORM, NONFINITE}) | _per_step.READS,
    trends=frozenset({LOSS, STEPS, _per_step.TOKENS, _per_step.SAMPLES}),
    events=frozenset({"log"}),
    clear=120.0,
    thresholds={
        "sigmas": Threshold(6.0, "count", "of the scatter from reading to reading"),
        "raised": Threshold(0.2, "ratio", "above the best level; data alone moves it by 5 to 10 %"),
        "jumped": Threshold(0.5, "ratio", "above the best level: one reading is enough"),
        "lasting": Threshold(60.0, "seconds", "a spike falls back within some tens of steps"),
        "samples": Threshold(6.0, "readings", "a level that stays, not a reading or two"),
        "mostly": Threshold(0.5, "ratio", "of the steps; a growing loss scale skips one in 2000"),
        "recent": Threshold(600.0, "seconds", "how long a line or a count speaks of the present"),
        "dropped": Threshold(0.15, "ratio", "less in a step; packing varies by a few percent"),
        "flat": Threshold(0.07, "ratio", "step time that counts as unchanged"),
        "stretch": Threshold(15.0, "seconds", "over which work and steps are set against another"),
    },
)
