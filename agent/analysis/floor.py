"""The verdict on memory at one phase of the step: a leak, or which of its harmless look-alikes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Literal, NamedTuple

from gpudiag.agent.analysis.growth import FEW, MIB, Growth, Wanted, growth, still_to_come, troughs
from gpudiag.agent.analysis.plain import MAD_TO_SIGMA, line

Kind = Literal[
    "leak",
    "warm-up",
    "sawtooth",
    "caching",
    "fragmentation",
    "outside torch",
    "flat",
    "cannot tell",
]

# A fall of this part of all movement ends a tooth; noise falls less, lengths fall more often.
_TOOTH = 0.5
_MOST_FALLS = 0.2
_RISING = 0.6
# What is left to grow in the later half of a warm-up, of all its growth.
_TAIL = 0.3
# The lowest and the last of sixteen readings of mere noise differ by 3.5 sigma on average.
_FLAT = 6.0
_ONE_STEP = 0.9


@dataclass(frozen=True, slots=True)
class Floor:
    """Bytes at the same phase of the step; `times` ascend, in steps or seconds.

    `reserved` and `used` (of the device, by all) may be missing. `retries` are the allocations
    that had to be tried again in that time.
    """

    times: Sequence[float]
    allocated: Sequence[float]
    reserved: Sequence[float] = ()
    used: Sequence[float] = ()
    retries: int = 0


@dataclass(frozen=True, slots=True)
class Judgement:
    """`grown` is the growth that the verdict is about; `missing` what would settle it."""

    kind: Kind
    confidence: float
    why: str
    grown: Growth | None = None
    missing: tuple[str, ...] = ()


class Left(NamedTuple):
    """Time until memory is full, and its band; None where the rate may as well be zero."""

    expected: float
    soonest: float
    latest: float | None


def judge(floor: Floor, *, least: float = MIB) -> Judgement:
    """Which it is; growth of less than `least` bytes in all is none."""
    count = len(floor.times)
    if count < FEW:
        return Judgement(
            "cannot tell",
            0.5,
            f"{count} readings at the same phase are too few",
            missing=(f"{FEW - count} more readings at the same phase",),
        )
    return _growing(floor, least) or _still(floor.allocated, least)


def time_left(free: float, grown: Growth) -> Left:
    """When `free` bytes are used up at this rate, in the units of its times."""
    latest = free / grown.low if grown.low > 0.0 else None
    return Left(free / grown.rate, free / max(grown.high, grown.rate), latest)


def _growing(floor: Floor, least: float) -> Judgement | None:
    teeth = _teeth(floor.allocated)
    leak = None
    if not teeth:
        leak = growth(floor.times, floor.allocated, Wanted(least=least))
    elif len(teeth) < FEW:
        return _few_teeth(floor, teeth)
    else:
        times, lows = _at(floor, teeth)
        leak = growth(times, lows, Wanted(least=least))
    if leak:
        return Judgement("leak", _sure(leak), "the lowest that is allocated rises all along", leak)
    return _beside(floor, least)


def _beside(floor: Floor, least: float) -> Judgement | None:
    """Growth of what is not allocated: outside torch, or its cache."""
    if floor.used and floor.reserved:
        outside = [u - r for u, r in zip(floor.used, floor.reserved, strict=True)]
        found = growth(floor.times, outside, Wanted(least=least))
        if found:
            why = "the device's figure grows, what torch reserves does not"
            return Judgement("outside torch", _sure(found), why, found)
    cache = growth(floor.times, floor.reserved, Wanted(least=least)) if floor.reserved else None
    if cache is None:
        return None
    if floor.retries:
        why = f"reserved grows, allocated does not, and {floor.retries} requests were tried again"
        return Judgement("fragmentation", 0.8, why, cache)
    why = "reserved grows, allocated does not, and no request had to be tried again"
    return Judgement("caching", 0.75, why, cache)


def _few_teeth(floor: Floor, teeth: Sequence[int]) -> Judgement | None:
    """Lows that rise from tooth to tooth are only a leak once there were enough of them."""
    times, lows = _at(floor, teeth)
    steps = [b - a for a, b in pairwise(lows)]
    noise = _noise(floor.allocated)
    if len(lows) < 3 or min(steps) <= 0.0 or lows[-1] - lows[0] <= _FLAT * noise:
        return None
    rate = (lows[-1] - lows[0]) / (times[-1] - times[0])
    fit = line(times, lows)
    low, high = (fit.low, fit.high) if fit else (0.0, rate)
    span = times[-1] - times[0]
    return Judgement(
        "cannot tell",
        0.5,
        f"it falls back and rises again, higher each time, {len(teeth)} times so far",
        Growth(rate, low, high, lows[-1] - lows[0], span, times[0], lows[-1]),
        (f"{FEW - len(teeth)} more of its cycles",),
    )


def _at(floor: Floor, marks: Sequence[int]) -> tuple[list[float], list[float]]:
    return [floor.times[n] for n in marks], [floor.allocated[n] for n in marks]


def _still(values: Sequence[float], least: float) -> Judgement:
    """Nothing grows on: what it does instead."""
    teeth = _teeth(values)
    if teeth:
        why = f"it falls back all the way, {len(teeth) - 1} times so far"
        return Judgement("sawtooth", 0.85, why)
    _, lows = troughs(values)
    floor = still_to_come(lows)
    grown = floor[-1] - floor[0]
    # The lowest of a stretch varies about half as much as its readings do.
    if grown < max(least, _FLAT * max(_noise(lows), _noise(values) / 2.0)):
        return Judgement("flat", 0.9, "the lowest that is allocated stays where it was")
    late = floor[-1] - floor[len(floor) // 2]
    if max(b - a for a, b in pairwise(floor)) >= _ONE_STEP * grown and late < grown:
        return Judgement("warm-up", 0.8, "it rose once, by one step, and stays there")
    if late <= _TAIL * grown:
        return Judgement("warm-up", 0.85, "it rose at first and has stopped")
    return Judgement(
        "cannot tell",
        0.5,
        "it rose lately, not long enough to tell a leak from one more step",
        missing=(f"{len(values)} more readings at the same phase",),
    )


def _teeth(values: Sequence[float]) -> list[int]:
    """Where each tooth of a saw begins; none where it is no saw."""
    falls = _falls(values)
    return [0, *falls] if falls and _rises(values, falls) else []


def _falls(values: Sequence[float]) -> list[int]:
    """Where a reading lies below the one before by half of all movement."""
    span = max(values) - min(values)
    return [n for n, (a, b) in enumerate(pairwise(values), 1) if span and a - b >= _TOOTH * span]


def _rises(values: Sequence[float], falls: Sequence[int]) -> bool:
    """Whether between its falls it mostly climbs, by little: a tooth, and no to and fro."""
    steps = [b - a for a, b in pairwise(values)]
    if max(steps) >= _TOOTH * (max(values) - min(values)):
        return False
    rising, between = sum(step > 0.0 for step in steps), len(steps) - len(falls)
    return len(falls) <= _MOST_FALLS * len(steps) and rising >= _RISING * between


def _noise(values: Sequence[float]) -> float:
    """How far neighbours differ from their usual difference, as a sigma of one value."""
    steps = [b - a for a, b in pairwise(values)]
    if not steps:
        return 0.0
    usual = median(steps)
    return MAD_TO_SIGMA * median(abs(step - usual) for step in steps) / math.sqrt(2.0)


def _sure(grown: Growth) -> float:
    """A rate whose interval is narrow is surer."""
    wide = (grown.high - grown.low) / grown.rate
    return 0.9 if wide < 0.2 else 0.8 if wide < 1.0 else 0.7
