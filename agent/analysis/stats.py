"""Robust statistics for short, noisy series: slopes, trends, level shifts and peers.

All of it holds up against outliers and ties; none of it assumes a normal distribution. The
tests assume independent readings: neighbouring ones are not, so set thresholds well beyond what
the formula alone calls significant.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

MAX_POINTS = 200
"""More points than this are first thinned to block medians; pairs grow with the square."""

MAD_TO_SIGMA = 1.4826
"""Scales the median absolute deviation to the standard deviation of a normal distribution
(Rousseeuw and Croux 1993, Alternatives to the Median Absolute Deviation)."""


@dataclass(frozen=True, slots=True)
class Slope:
    """Change per unit of time, `low` to `high` with the confidence asked for.

    `level` is the value of the line at the last time given.
    """

    value: float
    low: float
    high: float
    level: float


@dataclass(frozen=True, slots=True)
class Trend:
    """A monotonic trend: `tau` from -1 (always falls) to 1 (always rises), two-sided `p`."""

    tau: float
    z: float
    p: float


@dataclass(frozen=True, slots=True)
class Step:
    """A level shift: the median `before` it and `after` it; `time` is the first after it."""

    time: float
    before: float
    after: float
    p: float


def quantile(values: Floats, q: float) -> float:
    """The `q` quantile (0-1), linear between readings; raises ValueError when there are none."""
    return float(np.quantile(_some(values), q))


def median(values: Floats) -> float:
    """The middle value; raises ValueError when there are none."""
    return float(np.median(_some(values)))


def mad(values: Floats) -> float:
    """Median absolute deviation from the median, as read (times `MAD_TO_SIGMA` for a sigma)."""
    return median(np.abs(_some(values) - median(values)))


def _some(values: Floats) -> Floats:
    if len(values) == 0:
        raise ValueError("no values: ask whether the series has any first")
    return values


def peers(values: Floats) -> Floats:
    """How far each value lies from the median of the others, shape (n,), n >= 2.

    The one that is judged is left out of its own reference, so that two can be compared too
    and one outlier among three does not pull its yardstick along.
    """
    count = len(values)
    if count < 2:
        raise ValueError("peers need at least two values to compare")
    order = np.argsort(values, kind="stable")
    ranked = values[order]
    rank = np.arange(count)
    below, above = (count - 2) // 2, (count - 1) // 2
    # Leaving out the value of rank r moves every rank from r on down by one.
    rest = (ranked[below + (rank <= below)] + ranked[above + (rank <= above)]) / 2.0
    found = np.empty(count)
    found[order] = ranked - rest
    return found


def theil_sen(times: Floats, values: Floats, *, confidence: float = 0.95) -> Slope | None:
    """Median of the slopes between all pairs, with its confidence interval; None under 3 points.

    Theil 1950; interval after Sen 1968, Estimates of the Regression Coefficient Based on
    Kendall's Tau, section 3. Stands up to 29 % of outliers.
    """
    times, values = thin(times, values)
    count = len(times)
    if count < 3 or times[0] == times[-1]:
        return None
    first, second = np.triu_indices(count, 1)
    run = times[second] - times[first]
    apart = run > 0.0
    slopes = (values[second] - values[first])[apart] / run[apart]
    half = _z(confidence) * math.sqrt(_kendall_variance(values))
    pairs = len(slopes)
    low = max(round((pairs - half) / 2.0), 0)
    high = min(round((pairs + half) / 2.0), pairs - 1)
    middle = (pairs - 1) // 2, pairs // 2
    slopes.partition(sorted({low, high, *middle}))
    value = float(slopes[middle[0]] + slopes[middle[1]]) / 2.0
    level = float(np.median(values - value * (times - times[-1])))
    return Slope(value, float(slopes[low]), float(slopes[high]), level)


def trend(times: Floats, values: Floats) -> Trend | None:
    """The Mann-Kendall test for a monotonic trend, corrected for ties; None under 4 points.

    Mann 1945, Kendall 1975; normal approximation with continuity correction (Gilbert 1987,
    Statistical Methods for Environmental Pollution Monitoring, section 16.4).
    """
    _, values = thin(times, values)
    count = len(values)
    if count < 4:
        return None
    score = float(np.triu(np.sign(values[None, :] - values[:, None]), 1).sum())
    variance = _kendall_variance(values)
    z = (score - math.copysign(1.0, score)) / math.sqrt(variance) if score and variance else 0.0
    return Trend(score / (count * (count - 1) / 2.0), z, _two_sided(z))


def steps(times: Floats, values: Floats, *, p: float = 1e-3, shortest: int = 5) -> list[Step]:
    """Level shifts, oldest first, each side at least `shortest` points long.

    Pettitt 1979, A Non-Parametric Approach to the Change-Point Problem, applied to the whole
    and then to what lies on either side of each shift found. A steady slope also has a
    best splitting point: look at `trend` within the sides before calling it a step.
    """
    found: list[Step] = []
    pending = [(0, len(values))]
    while pending:
        start, end = pending.pop()
        split, chance = _pettitt(values[start:end], shortest)
        if chance < p:
            middle = start + split
            before = float(np.median(values[start:middle]))
            after = float(np.median(values[middle:end]))
            found.append(Step(float(times[middle]), before, after, chance))
            pending += [(start, middle), (middle, end)]
    return sorted(found, key=lambda step: step.time)


def _pettitt(values: Floats, shortest: int) -> tuple[int, float]:
    count = len(values)
    if count < 2 * shortest:
        return 0, 1.0
    sizes = np.arange(1, count)
    scores = np.abs(2.0 * np.cumsum(_ranks(values))[:-1] - sizes * (count + 1))
    inside = scores[shortest - 1 : count - shortest]
    best = int(np.argmax(inside))
    chance = 2.0 * math.exp(-6.0 * float(inside[best]) ** 2 / (count**3 + count**2))
    return best + shortest, min(chance, 1.0)


def _ranks(values: Floats) -> Floats:
    """Ranks from 1; equal values share the mean of theirs."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    ranks: Floats = (last - (counts - 1) / 2.0)[inverse]
    return ranks


def thin(times: Floats, values: Floats, most: int = MAX_POINTS) -> tuple[Floats, Floats]:
    """At most `most` points: medians of equal blocks; the oldest that fill no block are left."""
    size = -(-len(times) // most)
    if size <= 1:
        return times, values
    blocks = len(times) // size
    return (
        np.median(times[-blocks * size :].reshape(blocks, size), axis=1),
        np.median(values[-blocks * size :].reshape(blocks, size), axis=1),
    )


def _kendall_variance(values: Floats) -> float:
    count = len(values)
    _, ties = np.unique(values, return_counts=True)
    tied = float((ties * (ties - 1) * (2 * ties + 5)).sum())
    return (count * (count - 1) * (2 * count + 5) - tied) / 18.0


def _z(confidence: float) -> float:
    return NormalDist().inv_cdf(0.5 + confidence / 2.0)


def _two_sided(z: float) -> float:
    return math.erfc(abs(z) / math.sqrt(2.0))
