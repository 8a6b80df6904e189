"""Reads what a rule expected (`< 0.35`, `>= 1.9 GHz`, `20-30 %`) as limits to draw."""

from __future__ import annotations

import re

Limits = tuple[float | None, float | None]
"""Lowest and highest value that would have been fine; None where that side is open."""

_FACTORS = {"": 1.0, "%": 0.01, "ms": 1e-3, "min": 60.0, "°C": 1.0, "ratio": 1.0}
_FACTORS |= dict.fromkeys(("celsius", "seconds", "hertz", "watts", "joules", "bytes"), 1.0)
for _base in ("B", "Hz", "W", "s"):
    _FACTORS[_base] = 1.0
    for _power, _prefix in enumerate("kMGT", start=1):
        _FACTORS[_prefix + _base] = 1e3**_power
        _FACTORS[_prefix + "i" + _base] = 1024.0**_power

_NUMBER = r"([-+]?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?)\s*([A-Za-z%°]*)"
_BELOW = re.compile(rf"(?:<=?|≤|at most|below|under)\s*{_NUMBER}")
_ABOVE = re.compile(rf"(?:>=?|≥|at least|above|over)\s*{_NUMBER}")
_BETWEEN = re.compile(rf"{_NUMBER}\s*(?:-|–|to|\.\.)\s*{_NUMBER}")
_REMARK = re.compile(r"\s*\([^)]*\)$")


def limits(text: str) -> Limits | None:
    """The limits in base units; None where the text is not plainly a limit: better none than wrong.

    A remark in brackets may follow: `>= 1.9 GHz (the peers' median)`.
    """
    text = _REMARK.sub("", text.strip())
    if found := _BELOW.fullmatch(text):
        return _bounds(None, _value(found[1], found[2]))
    if found := _ABOVE.fullmatch(text):
        return _bounds(_value(found[1], found[2]), None)
    if found := _BETWEEN.fullmatch(text):
        low, high = _value(found[1], found[2] or found[4]), _value(found[3], found[4])
        return None if low is None or high is None else (low, high)
    return None


def _bounds(low: float | None, high: float | None) -> Limits | None:
    return None if low is None and high is None else (low, high)


def _value(number: str, unit: str) -> float | None:
    factor = _FACTORS.get(unit)
    return None if factor is None else float(number.replace(",", "")) * factor
