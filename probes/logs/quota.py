"""Keeps a flood in one log from drowning the rest: the first of its kind pass, the rest count."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

WINDOW_SECONDS = 60.0
MAX_ALIKE = 20
"""Lines of one log and shape that pass in a minute: enough for every rank of a node, twice."""
MAX_CHATTER = 2
MAX_PER_LOG = 300
MAX_SHAPES = 2048

_DIGITS = str.maketrans("", "", "0123456789")


@dataclass(slots=True)
class _Count:
    since: float
    number: int = 0


class Quota:
    """What may pass; `dropped` counts what did not."""

    def __init__(self) -> None:
        self.dropped = 0
        self._counts: OrderedDict[tuple[str, str], _Count] = OrderedDict()

    def admits(self, log: str, kind: str, text: str, now: float, *, chatter: bool) -> bool:
        """Whether a line of this log may be told: by its shape, and by its log's whole."""
        shape = kind if chatter else f"{kind} {text[:120].translate(_DIGITS)}"
        alike = self._count((log, shape), now, MAX_CHATTER if chatter else MAX_ALIKE)
        if alike and (chatter or self._count((log, ""), now, MAX_PER_LOG)):
            return True
        # That chatter goes on needs no count: nothing of it is lost.
        self.dropped += not chatter
        return False

    def _count(self, key: tuple[str, str], now: float, most: int) -> bool:
        count = self._counts.get(key)
        if count is None or not 0.0 <= now - count.since < WINDOW_SECONDS:
            self._counts.pop(key, None)
            count = self._counts[key] = _Count(now)
            if len(self._counts) > MAX_SHAPES:
                self._counts.popitem(last=False)
        count.number += 1
        return count.number <= most
