"""Whether a floor of memory rises on and on: not a warm-up, not a sawtooth, not a step.

Plain trend tests call all three a leak. What tells them apart is the lower envelope: the lowest
value still to come. A leak lifts it all along, a sawtooth only after its last fall, a warm-up only
at first, a workspace once.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gpudiag.agent.analysis.stats import MAD_TO_SIGMA, Floats, theil_sen, trend
from gpudiag.agent.window import Series

FEW = 8
MOST_TROUGHS = 16
MIB = 2.0**20

# Below a fifth of the present level the process was another one, or not there yet.
RESTART = 0.2
# Of all growth a straight line has half in each half; a warm-up has 0.3 at most in the later one.
EARLY, LATE = 0.25, 0.37
LARGEST_STEP = 0.45
SIGNIFICANT = 2.6
NOISES = 4.0
LEAST = 0.001
# For a lookback that leaves out a past, growth must reach beyond all that this past has seen: where
# it fell before, epochs of uneven length are likelier than a leak until it outgrows the falls.
LONGER_TOOTH = 1.5
# A warm-up has slowed down to less than half between two spans that are alike in length.
SLOWING = 2.0
LOOKBACKS = (1.0, 0.85, 0.7, 0.5, 0.35, 0.25, 0.125)


class Growth(NamedTuple):
    """A floor that rises: `rate` per second, by `grown` in `seconds` up to now, to `level`."""

    rate: float
    grown: float
    seconds: float
    since: float
    level: float


def growth(series: Series, *, late: float = LATE) -> Growth | None:
    """How the floor of these one-minute minima grows; None where it does not, or too few tell."""
    times, values = series.times, series.values
    count = len(values)
    if count < FEW or not (values[-1] > values[-FEW] or values[-1] > values[count // 2]):
        return None
    start = _start(values)
    times, values = times[start:], values[start:]
    for part in LOOKBACKS:
        first = len(values) - int(len(values) * part)
        if len(values) - first < FEW:
            break
        found = _growth(times[first:], values[first:], late)
        if found and (first == 0 or _news(times[:first], values[:first], found)):
            return found
    return None


def _news(times: Floats, past: Floats, found: Growth) -> bool:
    """Whether what grows is neither one more tooth of a saw nor the tail of a warm-up."""
    fell = float((np.maximum.accumulate(past) - past).max())
    if found.level <= past.max() or found.grown <= LONGER_TOOTH * fell:
        return False
    before = past[times >= times[-1] - found.seconds]
    quarter = max(1, len(before) // 4)
    rose = float(before[-quarter:].min() - before[:quarter].min())
    return rose <= SLOWING * found.rate * 0.75 * min(found.seconds, float(times[-1] - times[0]))


def enough(series: Series) -> bool:
    """Whether so much was seen of this process that no growth means something."""
    return len(series.values) - _start(series.values) >= FEW


def _start(values: Floats) -> int:
    if not len(values) or values.min() >= RESTART * values[-1]:
        return 0
    other = np.flatnonzero(values < RESTART * values[-1])
    return int(other[-1]) + 1 if len(other) else 0


def _growth(times: Floats, values: Floats, late: float) -> Growth | None:
    edges = np.linspace(0, len(values), min(len(values), MOST_TROUGHS) + 1).astype(int)[:-1]
    troughs = np.minimum.reduceat(values, edges)
    floor = np.minimum.accumulate(troughs[::-1])[::-1]
    grown = float(floor[-1] - floor[0])
    if grown < max(MIB, LEAST * floor[-1]) or troughs[-1] < troughs.max() - 0.1 * grown:
        return None
    middle = float(floor[len(floor) // 2])
    if middle - floor[0] < EARLY * grown or floor[-1] - middle < late * grown:
        return None
    if np.diff(floor).max() > LARGEST_STEP * grown:
        return None
    return _significant(times, times[edges], troughs, grown)


def _significant(times: Floats, at: Floats, troughs: Floats, grown: float) -> Growth | None:
    line, test = theil_sen(at, troughs), trend(at, troughs)
    if line is None or test is None or test.z < SIGNIFICANT or line.value <= 0.0:
        return None
    off = troughs - (line.level + line.value * (at - at[-1]))
    noise = MAD_TO_SIGMA * float(np.median(np.abs(off - np.median(off))))
    if grown < NOISES * noise:
        return None
    seconds = float(times[-1] - times[0])
    return Growth(line.value, grown, seconds, float(times[0]), float(troughs[-1]))
