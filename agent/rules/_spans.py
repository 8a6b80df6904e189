"""How long a condition has held: the small arithmetic that rules share."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gpudiag.agent.window import Series

Floats = npt.NDArray[np.float64]

FEW = 3
"""Samples below which a span says nothing about what lasts."""


def held_since(series: Series, holds: npt.NDArray[np.bool_]) -> float | None:
    """When the condition began that held without a break up to the newest sample, else None."""
    if not len(holds) or not holds[-1]:
        return None
    breaks = np.flatnonzero(~holds)
    return float(series.times[breaks[-1] + 1 if len(breaks) else 0])


def tail(series: Series, seconds: float) -> Series | None:
    """The last `seconds` of it, stretched to three samples; None where they are not all there."""
    if len(series.times) < FEW:
        return None
    spacing = float(np.median(np.diff(series.times)))
    first = int(np.searchsorted(series.times, series.times[-1] - max(seconds, 2.0 * spacing)))
    first = min(first, len(series.times) - FEW)
    times, values = series.times[first:], series.values[first:]
    complete = times[-1] - times[0] >= seconds - spacing
    return Series(series.labels, times, values) if complete else None


def mostly_above(series: Series, seconds: float, limit: float) -> bool:
    """Whether it stood at `limit` or above for three quarters of the last `seconds` and still does.

    Three quarters and not always: pressure and load are noisy, and one dip ends no trouble.
    """
    last = tail(series, seconds)
    if last is None or last.values[-1] < limit / 2.0:
        return False
    return float(np.quantile(last.values, 0.25, method="lower")) >= limit


def above_since(series: Series, limit: float) -> float:
    """When the series rose above half of `limit` for the last time: where such trouble began."""
    since = held_since(series, series.values >= limit / 2.0)
    return float(series.times[-1]) if since is None else since


def steady_slope(series: Series) -> float:
    """Change a second of a trend that all thirds of the span share; 0.0 for steps and sawtooths."""
    if len(series.times) < 3 * FEW:
        return 0.0
    times = np.array_split(series.times - series.times[0], 3)
    values = np.array_split(series.values, 3)
    slopes = [_fit(t, v) for t, v in zip(times, values, strict=True)]
    # A step or a ramp that has ended leaves a third with hardly any change of its own.
    if min(map(abs, slopes)) < 0.3 * max(map(abs, slopes)) or min(slopes) * max(slopes) <= 0.0:
        return 0.0
    across = float(np.median(times[2]) - np.median(times[0]))
    return float(np.median(values[2]) - np.median(values[0])) / across


def _fit(times: Floats, values: Floats) -> float:
    middle = times - times.mean()
    return float(middle @ values / (middle @ middle))
