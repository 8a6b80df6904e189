"""A robust line through a few points, without numpy: for what must run on a bare install."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from statistics import NormalDist, median
from typing import NamedTuple

MAD_TO_SIGMA = 1.4826
"""As in `stats`: scales the median absolute deviation to a normal distribution's sigma."""


class Line(NamedTuple):
    """Theil-Sen's slope with its interval (Sen 1968), `level` at the last point, Mann-Kendall's z.

    `noise` is the sigma of what lies beside the line.
    """

    rate: float
    low: float
    high: float
    level: float
    z: float
    noise: float


def line(times: Sequence[float], values: Sequence[float], confidence: float = 0.95) -> Line | None:
    """The line through at most some dozens of points; None under 4, or all at one time."""
    count = len(times)
    if count < 4 or times[0] == times[-1]:
        return None
    pairs = [(i, j) for i in range(count) for j in range(i + 1, count) if times[j] > times[i]]
    slopes = sorted((values[j] - values[i]) / (times[j] - times[i]) for i, j in pairs)
    deviation = math.sqrt(_variance(values))
    half = NormalDist().inv_cdf(0.5 + confidence / 2.0) * deviation
    rate = median(slopes)
    low = slopes[max(round((len(slopes) - half) / 2.0), 0)]
    high = slopes[min(round((len(slopes) + half) / 2.0), len(slopes) - 1)]
    level = median(v - rate * (t - times[-1]) for t, v in zip(times, values, strict=True))
    score = sum((values[j] > values[i]) - (values[j] < values[i]) for i, j in pairs)
    z = (score - math.copysign(1.0, score)) / deviation if score and deviation else 0.0
    off = [v - level - rate * (t - times[-1]) for t, v in zip(times, values, strict=True)]
    middle = median(off)
    noise = MAD_TO_SIGMA * median(abs(one - middle) for one in off)
    return Line(rate, low, high, level, z, noise)


def _variance(values: Sequence[float]) -> float:
    """Of Kendall's score, corrected for ties."""
    count = len(values)
    ties = Counter(values).values()
    tied = sum(n * (n - 1) * (2 * n + 5) for n in ties)
    return (count * (count - 1) * (2 * count + 5) - tied) / 18.0
