"""Passes by the lines that cannot matter, at next to no cost: most lines are like one before."""

from __future__ import annotations

import re
from functools import cache

from gpudiag.probes.logs.kinds import needles

MAX_SHAPES = 4096
MAX_SHAPE = 512

_DIGITS = b"0123456789"


@cache
def _with_digits() -> re.Pattern[bytes]:
    """The needles that two lines of one shape need not share."""
    words = needles().pattern.split(b"|")
    return re.compile(b"|".join(word for word in words if any(d in word for d in _DIGITS)))


class Sieve:
    """Remembers shapes (lines without their digits) in which no needle was found."""

    def __init__(self) -> None:
        self._dull: set[bytes] = set()

    def passes(self, raw: bytes) -> bool:
        """Whether the line holds a word that any known kind begins with."""
        shape = raw.translate(None, _DIGITS)
        if shape in self._dull:
            return _with_digits().search(raw) is not None
        found = needles().search(raw) is not None
        if not found and len(shape) <= MAX_SHAPE:
            if len(self._dull) >= MAX_SHAPES:
                self._dull.clear()
            self._dull.add(shape)
        return found
