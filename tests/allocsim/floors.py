"""Floor series that fool a trend test over all samples, each with its right answer."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tests.allocsim.rules import MIB

SAMPLES = 200
BASE = 40_000.0


@dataclass(frozen=True, slots=True)
class Row:
    """`values` are MiB per sample; `rate` MiB per sample where it grows.

    `cache` rows are what is reserved, with a flat allocated.
    """

    verdict: str
    values: Sequence[float]
    rate: float = 0.0
    cache: bool = False

    @property
    def sizes(self) -> list[float]:
        """In bytes."""
        return [value * MIB for value in self.values]


def _row(
    verdict: str,
    shape: Callable[[float], float],
    *,
    rate: float = 0.0,
    noise: float = 0.0,
    count: int = SAMPLES,
    cache: bool = False,
) -> Row:
    chance = random.Random(17)
    values = [BASE + shape(t) + rate * t + chance.gauss(0.0, noise) for t in range(count)]
    return Row(verdict, values, rate, cache)


def _every(row: Row, window: int, *, rate: float = 0.0) -> Row:
    """The lowest of each window, as one sample each."""
    values = row.values
    lows = [min(values[at : at + window]) for at in range(0, len(values), window)]
    return Row("leak" if rate else "flat", lows, rate)


def _flat(_: float) -> float:
    return 0.0


def _warm(t: float) -> float:
    return 2000.0 * (1.0 - math.exp(-t / 10.0))


def _saw(t: float) -> float:
    return 30.0 * (t % 50)


def _lengths() -> Callable[[float], float]:
    chance = random.Random(5)
    sizes = [chance.choice((0.0, 300.0, 600.0, 900.0)) for _ in range(2000)]
    return lambda t: sizes[int(t)]


_WARM = _row("warm-up", _warm, noise=3.0)
_VARIABLE = _row("flat", _lengths(), count=10 * SAMPLES)
_VARIABLE_LEAK = _row("leak", _lengths(), rate=0.5, count=10 * SAMPLES)

ROWS = {
    "flat, noise 30": _row("flat", _flat, noise=30.0),
    "leak 0.5, noise 30": _row("leak", _flat, rate=0.5, noise=30.0),
    "warm-up": _WARM,
    "warm-up, last half": Row("flat", _WARM.values[SAMPLES // 2 :]),
    "sawtooth": _row("sawtooth", _saw, noise=3.0),
    "sawtooth's troughs": _every(_row("", _saw, count=16 * 50), 50),
    "sawtooth and leak, 4 troughs": _row("cannot tell", _saw, rate=0.5),
    "sawtooth and leak, 16 troughs": _row("leak", _saw, rate=0.5, count=16 * 50),
    "variable lengths": _row("flat", _lengths()),
    "variable lengths and leak": _row("leak", _lengths(), rate=0.5),
    "variable lengths' troughs": _every(_VARIABLE, 10),
    "variable lengths' troughs and leak": _every(_VARIABLE_LEAK, 10, rate=5.0),
    "staircase of the cache": _row("caching", lambda t: 512.0 * (t // 60), cache=True),
}
