"""Whether a floor of memory rises on and on: not a warm-up, not a sawtooth, not a step.

Plain trend tests call all three a leak. What tells them apart is the lower envelope: the lowest
value still to come. A leak lifts it all along, a sawtooth only after its last fall, a warm-up only
at first, a workspace once. Standard library only; at most a few thousand points.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise
from math import sqrt
from statistics import median, stdev
from typing import NamedTuple

from gpudiag.agent.analysis.plain import Line, line

FEW = 8
MOST_TROUGHS = 16
MOST_MIDDLES = 48
WIDER = 10
MIB = 2.0**20

# Below a fifth of the present level the process was another one, or not there yet.
RESTART = 0.2
# Of all growth a straight line has half in each half; a warm-up has 0.3 at most in the later one.
EARLY, LATE = 0.25, 0.37
LARGEST_STEP = 0.45
SIGNIFICANT = 2.6
NOISES = 4.0
# For a lookback that leaves out a past, growth must reach beyond all that this past has seen: where
# it fell before, epochs of uneven length are likelier than a leak until it outgrows the falls.
LONGER_TOOTH = 1.5
# A warm-up has slowed down to less than half between two spans that are alike in length.
SLOWING = 2.0
LOOKBACKS = (1.0, 0.85, 0.7, 0.5, 0.35, 0.25, 0.125)


class Growth(NamedTuple):
    """A floor that rises: `rate` per unit of time, by `grown` over `span` up to now, to `level`.

    `low` to `high` is the rate's interval at 95 %; `since` the time it was first seen.
    """

    rate: float
    low: float
    high: float
    grown: float
    span: float
    since: float
    level: float


class Wanted(NamedTuple):
    """What counts as growth: at least `least` bytes, of them the part `late` in the later half.

    And `beyond` times as far as memory gets that wanders without aim, by steps like these.
    """

    late: float = LATE
    least: float = MIB
    beyond: float = 0.0


PLAIN = Wanted()


def growth(
    times: Sequence[float], values: Sequence[float], wanted: Wanted = PLAIN
) -> Growth | None:
    """How the floor of these readings grows; None where it does not, or too few tell.

    `times` ascend, in steps or seconds.
    """
    count = len(values)
    if count < FEW or not (values[-1] > values[-FEW] or values[-1] > values[count // 2]):
        return None
    start = restarted(values)
    times, values = times[start:], values[start:]
    for part in LOOKBACKS:
        first = len(values) - int(len(values) * part)
        if len(values) - first < FEW:
            break
        found = _any_growth(times[first:], values[first:], wanted)
        if found and (first == 0 or _news(times[:first], values[:first], found)):
            return found
    return None


def restarted(values: Sequence[float]) -> int:
    """The index from which on the readings are of the process that is there now."""
    if not values or min(values) >= RESTART * values[-1]:
        return 0
    limit = RESTART * values[-1]
    return next((n + 1 for n in range(len(values) - 1, -1, -1) if values[n] < limit), 0)


def troughs(
    values: Sequence[float],
    most: int = MOST_TROUGHS,
    of: Callable[[Sequence[float]], float] = min,
) -> tuple[list[int], list[float]]:
    """Where even stretches begin, and the lowest reading of each (or what `of` makes of it)."""
    parts = min(len(values), most)
    edges = [len(values) * n // parts for n in range(parts + 1)]
    return edges[:-1], [of(values[a:b]) for a, b in pairwise(edges)]


def still_to_come(lows: Sequence[float]) -> list[float]:
    """The lowest reading from each stretch on."""
    return list(accumulate(reversed(lows), min))[::-1]


def _any_growth(times: Sequence[float], values: Sequence[float], wanted: Wanted) -> Growth | None:
    """By lows first; wider stretches miss fewer of them, and middles see through mere noise."""
    found = _growth(times, values, wanted)
    if found is None and len(values) > MOST_TROUGHS:
        found = _growth(times, values, wanted, most=WIDER)
    if found is None and len(values) >= 3 * MOST_TROUGHS:
        found = _growth(times, values, wanted, of=median)
    return found


def _growth(
    times: Sequence[float],
    values: Sequence[float],
    wanted: Wanted,
    *,
    most: int = MOST_TROUGHS,
    of: Callable[[Sequence[float]], float] = min,
) -> Growth | None:
    edges, lows = troughs(values, most, of)
    floor = still_to_come(lows)
    grown = floor[-1] - floor[0]
    if grown <= 0.0 or grown < wanted.least:
        return None
    if lows[-1] < max(lows) - 0.1 * grown:
        return None
    middle = floor[len(floor) // 2]
    if middle - floor[0] < EARLY * grown or floor[-1] - middle < wanted.late * grown:
        return None
    largest = max(b - a for a, b in pairwise(floor))
    if largest > LARGEST_STEP * grown or grown < wanted.beyond * _wandered(lows):
        return None
    fit = line([times[n] for n in edges], lows)
    if fit is None or fit.z < SIGNIFICANT or fit.rate <= 0.0 or grown < NOISES * fit.noise:
        return None
    fit = _finest(times, values, fit)
    span = times[-1] - times[0]
    return Growth(fit.rate, fit.low, fit.high, grown, span, times[0], lows[-1])


def _wandered(lows: Sequence[float]) -> float:
    """How far a walk by these steps, without their common drift, gets in as many (sigma)."""
    steps = [b - a for a, b in pairwise(lows)]
    return stdev(steps) * sqrt(len(steps))


def _finest(times: Sequence[float], values: Sequence[float], fit: Line) -> Line:
    """The narrower of two lines: lows are exact under teeth, middles under mere noise."""
    parts = min(len(values), MOST_MIDDLES)
    edges = [len(values) * n // parts for n in range(parts + 1)]
    blocks = list(pairwise(edges))
    through = line(
        [median(times[a:b]) for a, b in blocks], [median(values[a:b]) for a, b in blocks]
    )
    if through is None or through.high - through.low >= fit.high - fit.low:
        return fit
    return through if fit.low <= through.rate <= fit.high else fit


def _news(times: Sequence[float], past: Sequence[float], found: Growth) -> bool:
    """Whether what grows is neither one more tooth of a saw nor the tail of a warm-up."""
    fell = max(top - one for top, one in zip(accumulate(past, max), past, strict=True))
    if found.level <= max(past) or found.grown <= LONGER_TOOTH * fell:
        return False
    before = [v for t, v in zip(times, past, strict=True) if t >= times[-1] - found.span]
    quarter = max(1, len(before) // 4)
    rose = min(before[-quarter:]) - min(before[:quarter])
    return rose <= SLOWING * found.rate * 0.75 * min(found.span, times[-1] - times[0])
