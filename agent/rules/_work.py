"""How much work a step holds now beside before: longer steps of more work are not slower ones."""

from __future__ import annotations

import numpy as np

from gpudiag.agent.rules._steps import Picture
from gpudiag.agent.rules._teams import STEPS
from gpudiag.agent.window import Series, Window

COUNTED = ("gpudiag_train_tokens_total", "gpudiag_train_samples_total")
OBSERVED = (
    "gpudiag_train_batch_size",
    "gpudiag_train_sequence_length",
    "gpudiag_train_micro_batches",
)
READS = frozenset({*COUNTED, *OBSERVED, STEPS})
BACK = 900.0


def work_ratio(window: Window, picture: Picture) -> float:
    """Work per step since steps take as long as now, to that of before; 1.0 where not known."""
    since = picture.since()
    labels = {"job": picture.job.name, "rank": picture.ranks[0]}
    steps = next(iter(window.series(STEPS, BACK, **labels)), None)
    for metric in COUNTED:
        counted = next(iter(window.series(metric, BACK, **labels)), None)
        if steps is not None and counted is not None:
            before = _per_step(counted, steps, -np.inf, since)
            after = _per_step(counted, steps, since, np.inf)
            if before and after:
                return after / before
    ratio = 1.0
    for metric in OBSERVED:
        for series in window.series(metric, BACK, **labels)[:1]:
            late = series.times > since
            if late.any() and not late.all() and np.median(series.values[~late]) > 0.0:
                ratio *= float(np.median(series.values[late]) / np.median(series.values[~late]))
    return ratio


def _per_step(counted: Series, steps: Series, since: float, until: float) -> float:
    rows = (counted.times > since) & (counted.times <= until)
    times = counted.times[rows]
    if len(times) < 2:
        return 0.0
    made = np.interp(times[[0, -1]], steps.times, steps.values)
    gone = float(made[1] - made[0])
    values = counted.values[rows]
    return float(values[-1] - values[0]) / gone if gone > 0.0 else 0.0
