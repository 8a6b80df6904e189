"""Whether a series of levels grows on and on, warmed up, swings, stepped once, or is flat.

Plain trend tests over all samples call a warm-up and a sawtooth a leak. The lower envelope (the
lowest level still to come) tells them apart: a leak lifts it all along, a sawtooth only after
its last fall, a warm-up only at first. Standard library only: it runs beside torch alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate, pairwise
from statistics import median
from typing import Literal, NamedTuple

Shape = Literal["grows", "warmed up", "swings", "stepped", "flat", "shrinks", "too few"]

FEW = 8
"""Cycles below which no series is called a leak; Mann-Kendall says nothing under seven."""

MOST = 16
_PIECES = (MOST, FEW)
"""Stretches whose lowest levels are compared; fewer and longer ones see past irregular swings."""

# Of all growth a straight line has half in its later half; an exponential warm-up far less.
_EARLY, _LATE = 0.25, 0.37
_LARGEST_STEP = 0.5
_SIGNIFICANT = 2.6
_NOISES = 4.0
_FALL = 0.5
_Z95 = 1.96
_REMEMBERS = 0.4
_PLAINLY, _EACH_HALF = 4.0, 1.0
_RISES = 0.01
_MOSTLY = 0.7
_PAIRED = 100
LOOKBACKS = (1.0, 0.85, 0.7, 0.5)
"""Parts of the series, up to now, of which one must grow: what came before may be a warm-up."""


class Trend(NamedTuple):
    """How a series moves: `rate` (`low` to `high` with 95 %) per unit of x where it `grows`.

    `grown` is last less first; `cycles` how many levels were judged.
    """

    shape: Shape
    rate: float
    low: float
    high: float
    grown: float
    cycles: int


def judge(xs: Sequence[float], ys: Sequence[float], least: float = 0.0) -> Trend:
    """The shape of levels `ys` at ascending `xs`; growth of at most `least` counts as flat."""
    count = len(ys)
    grown = ys[-1] - ys[0] if ys else 0.0
    if count < 2 or xs[0] == xs[-1]:
        return Trend("too few", 0.0, 0.0, 0.0, grown, count)
    if max(ys) - min(ys) <= least:
        return Trend("flat", 0.0, 0.0, 0.0, grown, count)
    if count < FEW:
        return Trend(_of_few(ys), *slope(xs, ys), grown, count)
    rates = [_by_floor(xs, ys, least)]
    if _noisy_growth(xs, ys):
        rates.append(_thinned_slope(xs, ys))
    sure = min((rate for rate in rates if rate), key=lambda rate: rate[2] - rate[1], default=None)
    if sure:
        return Trend("grows", *sure, grown, count)
    return Trend(_shape(ys), 0.0, 0.0, 0.0, grown, count)


def _by_floor(
    xs: Sequence[float], ys: Sequence[float], least: float
) -> tuple[float, float, float] | None:
    count = len(ys)
    for part in LOOKBACKS:
        first = count - max(FEW, round(count * part))
        for pieces in _PIECES:
            if _grows(ys[first:], pieces) and ys[-1] > max(ys[: first or 1]) + least:
                return _rate(xs[first:], ys[first:], pieces)
    return None


def _noisy_growth(xs: Sequence[float], ys: Sequence[float]) -> bool:
    """Whether a line explains all but noise without memory: there the plain test holds good.

    What is left of a warm-up or a sawtooth beside any line remembers where it was.
    """
    rate = _thinned_slope(xs, ys)[0]
    off = [y - rate * x for x, y in zip(xs, ys, strict=True)]
    half = len(ys) // 2
    independent = len(ys) >= 3 * FEW and abs(lag_one(off)) < _REMEMBERS
    parts = (ys[:half], ys[half:])
    return (
        independent
        and mann_kendall(ys) >= _PLAINLY
        and all(mann_kendall(part) >= _EACH_HALF for part in parts)
    )


def lag_one(ys: Sequence[float]) -> float:
    """Correlation of each level with the next: near 0 in noise, near 1 where levels last."""
    middle = sum(ys) / len(ys)
    off = [y - middle for y in ys]
    total = sum(value * value for value in off)
    return sum(a * b for a, b in pairwise(off)) / total if total else 0.0


def _thinned_slope(xs: Sequence[float], ys: Sequence[float]) -> tuple[float, float, float]:
    every = -(-len(xs) // _PAIRED)
    return slope(xs[::every], ys[::every])


def _of_few(ys: Sequence[float]) -> Shape:
    """Of two to seven levels it can only be told whether each is above the one before."""
    pairs = list(pairwise(ys))
    if all(a < b for a, b in pairs):
        return "grows"
    if all(a > b for a, b in pairs):
        return "shrinks"
    if ys[-1] == ys[-2] > ys[0] and all(a <= b for a, b in pairs):
        return "warmed up"
    falls = [a - b for a, b in pairs if a > b]
    return "swings" if falls and max(falls) >= _FALL * (max(ys) - min(ys)) else "stepped"


def _blocks(count: int, most: int) -> list[int]:
    pieces = min(count, most)
    return [n * count // pieces for n in range(pieces + 1)]


def _troughs(ys: Sequence[float], pieces: int) -> list[float]:
    edges = _blocks(len(ys), pieces)
    return [min(ys[a:b]) for a, b in pairwise(edges)]


def _grows(ys: Sequence[float], pieces: int) -> bool:
    troughs = _troughs(ys, pieces)
    floor = list(accumulate(reversed(troughs), min))[::-1]
    grown = floor[-1] - floor[0]
    if grown <= 0 or troughs[-1] < max(troughs) - 0.25 * grown:
        return False
    middle = floor[len(floor) // 2]
    if middle - floor[0] < _EARLY * grown or floor[-1] - middle < _LATE * grown:
        return False
    if max(b - a for a, b in pairwise(floor)) > _LARGEST_STEP * grown:
        return False
    return mann_kendall(troughs) >= _SIGNIFICANT and grown >= _NOISES * _noise(troughs)


def _noise(troughs: Sequence[float]) -> float:
    xs = list(range(len(troughs)))
    rate = slope(xs, troughs)[0]
    off = [y - rate * x for x, y in zip(xs, troughs, strict=True)]
    middle = median(off)
    return 1.4826 * median(abs(value - middle) for value in off)


def _shape(ys: Sequence[float]) -> Shape:
    span = max(ys) - min(ys)
    risen = ys[-1] - ys[0]
    half = len(ys) // 2
    later = max(ys[half:]) - min(ys[half:])
    if len(ys) >= 3 * FEW and lag_one(ys) < _REMEMBERS and not _ramps(ys):
        return "flat"
    lows = _after_falls(ys, span)
    if lows and risen > -_FALL * span:
        rising = all(b > a + _RISES * span for a, b in pairwise(lows))
        return "too few" if len(lows) > 1 and rising else "swings"
    if risen <= -_FALL * span:
        return "shrinks"
    steps = [b - a for a, b in pairwise(ys)]
    if max(steps) >= 0.9 * span and steps.index(max(steps)) > 0:
        return "stepped"
    return "warmed up" if risen > _FALL * span and later < _FALL * span else "stepped"


def _ramps(ys: Sequence[float]) -> bool:
    """Whether levels mostly rise and seldom, but far, fall: noise does both alike."""
    return sum(b > a for a, b in pairwise(ys)) >= _MOSTLY * (len(ys) - 1)


def _after_falls(ys: Sequence[float], span: float) -> list[float]:
    """The level after each fall of half the span or more from the highest since the last."""
    found = []
    high = ys[0]
    for y in ys:
        high = max(high, y)
        if high - y >= _FALL * span:
            found.append(y)
            high = y
    return found


def mann_kendall(ys: Sequence[float]) -> float:
    """The z of a monotonic trend, corrected for ties (Kendall 1975)."""
    count = len(ys)
    score = sum((b > a) - (b < a) for n, a in enumerate(ys) for b in ys[n + 1 :])
    ties = [ys.count(y) for y in set(ys)]
    tied = sum(t * (t - 1) * (2 * t + 5) for t in ties)
    variance = (count * (count - 1) * (2 * count + 5) - tied) / 18.0
    return (score - math.copysign(1, score)) / math.sqrt(variance) if score and variance else 0.0


def _rate(xs: Sequence[float], ys: Sequence[float], pieces: int) -> tuple[float, float, float]:
    """The slope of the lowest points, where several share a block: noise and swings ride on top."""
    edges = _blocks(len(ys), pieces)
    lows = [min(range(a, b), key=ys.__getitem__) for a, b in pairwise(edges)]
    return slope([xs[n] for n in lows], [ys[n] for n in lows])


def slope(xs: Sequence[float], ys: Sequence[float]) -> tuple[float, float, float]:
    """Theil-Sen: the median slope of all pairs and its 95 % interval (Sen 1968)."""
    slopes = sorted(
        (ys[j] - ys[i]) / (xs[j] - xs[i])
        for i in range(len(xs))
        for j in range(i + 1, len(xs))
        if xs[j] > xs[i]
    )
    pairs, count = len(slopes), len(xs)
    half = _Z95 * math.sqrt(count * (count - 1) * (2 * count + 5) / 18.0)
    low, high = max(round((pairs - half) / 2), 0), min(round((pairs + half) / 2), pairs - 1)
    return median(slopes), slopes[low], slopes[high]
