"""Tokens or samples in a step over time: what falls while steps take as long as ever."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gpudiag.agent.analysis.stats import MAD_TO_SIGMA
from gpudiag.agent.rules._jobs import Job
from gpudiag.agent.rules._teams import STEP, STEPS
from gpudiag.agent.rules.contract import Limits
from gpudiag.agent.window import Series, Window

TOKENS = "gpudiag_train_tokens_total"
SAMPLES = "gpudiag_train_samples_total"
READS = frozenset({TOKENS, SAMPLES, STEPS, STEP})
BACK = 1800.0
FEW = 4


class Drop(NamedTuple):
    """A step holds `now` where it held `before`, since `since`; its own time stayed `seconds`."""

    metric: str
    now: float
    before: float
    since: float
    seconds: float


def drop(window: Window, job: Job, limits: Limits) -> Drop | None:
    """The fall of work in a step at steps as fast as ever; None where there is none."""
    for metric in (TOKENS, SAMPLES):
        points = window.latest(metric, job=job.name)
        if not points:
            continue
        labels = {"job": job.name, "rank": points[0].labels.get("rank", "")}
        counted = next(iter(window.series(metric, BACK, **labels)), None)
        steps = next(iter(window.series(STEPS, BACK, **labels)), None)
        if counted is None or steps is None:
            continue
        found = _fell(counted, steps, limits)
        if found and (seconds := _flat(window, job, found[2], limits)):
            return Drop(metric, *found, seconds)
        return None
    return None


def _fell(counted: Series, steps: Series, limits: Limits) -> tuple[float, float, float] | None:
    times = counted.times
    if len(times) < 2 * FEW:
        return None
    # Whole stretches of some readings: a step may begin in one interval and end in the next.
    stride = max(1, round(limits["stretch"] / max(float(np.median(np.diff(times))), 1e-9)))
    marks = np.arange(len(times) - 1, -1, -stride)[::-1]
    made = np.diff(np.interp(times[marks], steps.times, steps.values))
    gone = np.diff(counted.values[marks])
    told = made > 0.0
    each, ends = gone[told] / made[told], times[marks][1:][told]
    late = max(FEW, int(np.sum(ends > ends[-1] - limits["lasting"]))) if len(ends) else 0
    if len(each) < late + FEW:
        return None
    before, now = each[:-late], each[-late:]
    usual = float(np.sort(before)[int(0.6 * (len(before) - 1))])
    noise = MAD_TO_SIGMA * float(np.median(np.abs(np.diff(before)))) / float(np.sqrt(2.0))
    limit = min((1.0 - limits["dropped"]) * usual, usual - 4.0 * noise)
    if float(np.median(now)) > limit or float(now.max()) > (usual + limit) / 2.0:
        return None
    below = np.flatnonzero(each > (usual + float(np.median(now))) / 2.0)
    return float(np.median(now)), usual, float(ends[below[-1]]) if len(below) else float(ends[0])


def _flat(window: Window, job: Job, since: float, limits: Limits) -> float | None:
    """The step time of now if it is that of before; None where it rose or is not known."""
    for series in window.series(STEP, BACK, job=job.name)[:1]:
        late = series.times > since
        if not late.any() or late.all():
            return None
        now, before = float(np.median(series.values[late])), float(np.median(series.values[~late]))
        return now if now <= (1.0 + limits["flat"]) * before else None
    for series in window.series(STEPS, BACK, job=job.name)[:1]:
        at = np.interp([series.times[0], since, series.times[-1]], series.times, series.values)
        spans = (since - series.times[0], series.times[-1] - since)
        if min(spans) <= 0.0 or at[1] <= at[0] or at[2] <= at[1]:
            return None
        before, now = spans[0] / float(at[1] - at[0]), spans[1] / float(at[2] - at[1])
        return now if now <= (1.0 + limits["flat"]) * before else None
    return None
