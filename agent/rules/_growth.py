"""Growth of a series of one-minute minima, as the rules ask for it: per second, in bytes."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from gpudiag.agent.analysis import growth as floor
from gpudiag.agent.analysis.stats import Floats
from gpudiag.agent.window import Series
from gpudiag.agent.window.minutes import MINUTE

LEAST = 0.001
# Host memory wanders: by chance it gets three times as far as its steps lead once in 700.
BEYOND = 3.0
# A long floor is judged again when about a hundredth of it is new.
PARTS = 100


class Growth(NamedTuple):
    """A floor that rises: `rate` per second, by `grown` in `seconds` up to now, to `level`."""

    rate: float
    grown: float
    seconds: float
    since: float
    level: float


def growth(series: Series, *, late: float = floor.LATE) -> Growth | None:
    """How the floor of these one-minute minima grows; None where it does not, or too few tell."""
    count, values = len(series.values), series.values
    # What certainly does not grow, most of what is watched, is told without a copy.
    if count < floor.FEW or not (
        values[-1] > values[-floor.FEW] or values[-1] > values[count // 2]
    ):
        return None
    # A floor rises no further than its readings lie apart: a few MiB of noise need no closer look.
    if float(np.ptp(values)) < _least(float(values[-1])):
        return None
    span = slice(*_bounds(series.times))
    return _judged(series.times[span].tobytes(), values[span].tobytes(), late)


def _bounds(times: Floats) -> tuple[int, int]:
    """The part between whole multiples of a pace, the same until one pace has gone by."""
    pace = MINUTE * 2.0 ** max(0, int(len(times) / PARTS).bit_length() - 1)
    first, end = -(-times[0] // pace) * pace, times[-1] // pace * pace
    low, high = np.searchsorted(times, [first, end])
    return int(low), int(high) + 1


# Minutes end once a minute and rules ask every few seconds: most judgements are repeats.
@lru_cache(maxsize=128)
def _judged(times: bytes, minima: bytes, late: float) -> Growth | None:
    values = np.frombuffer(minima).tolist()
    wanted = floor.Wanted(late, _least(values[-1]), BEYOND)
    found = floor.growth(np.frombuffer(times).tolist(), values, wanted)
    if found is None:
        return None
    return Growth(found.rate, found.grown, found.span, found.since, found.level)


def _least(level: float) -> float:
    """The least growth that counts, bytes."""
    return max(floor.MIB, LEAST * level)


def enough(series: Series) -> bool:
    """Whether so much was seen of this process that no growth means something."""
    values = series.values
    if not len(values) or values.min() >= floor.RESTART * values[-1]:
        return len(values) >= floor.FEW
    return len(values) - floor.restarted(values.tolist()) >= floor.FEW
