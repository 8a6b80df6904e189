"""One pass over a device's trace: what lived from when to when, the peak, and the failures.

Memory is looked at on `marks`, positions in the trace. A block that comes and goes between two
marks is seen by nobody and costs next to nothing; only the others have their stack looked at.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

Number = Callable[[Any], int]

UNIT = 512
"""Bytes; the allocator rounds every request up to a multiple. Traces tell what was requested."""

_LONG = 4
_RECENT = 40_000
_SEGMENTS = {"segment_alloc": 1, "segment_map": 1, "segment_free": -1, "segment_unmap": -1}


Birth = tuple[dict[str, Any], int, int]
"""How a block of the trace was made: its entry, the mark before it, its rounded size."""


class Failure(NamedTuple):
    """An allocation that failed: bytes asked for (rounded), bytes the device had left."""

    size: int
    device_free: int
    site: int
    mark: int
    entry: dict[str, Any]


@dataclass
class Walk:
    """What a trace tells. Sizes are bytes, rounded as the allocator rounds.

    `allocated[i]` and `reserved[i]` are the changes since the start of the trace at mark i;
    `lived[site][i]` are the changes in (bytes, blocks) of a site from mark i on, made by
    blocks that outlived a mark. `gone` is the same for blocks older than the trace. `sizes` counts
    what the end of the trace asked for.
    """

    marks: Sequence[int]
    allocated: list[int] = field(default_factory=list)
    reserved: list[int] = field(default_factory=list)
    lived: dict[int, dict[int, list[int]]] = field(default_factory=lambda: defaultdict(dict))
    gone: dict[int, list[int]] = field(default_factory=dict)
    live: dict[int, Birth] = field(default_factory=dict)
    freed_by: Counter[tuple[int, int, int]] = field(default_factory=Counter)
    sizes: Counter[int] = field(default_factory=Counter)
    peak: int = 0
    peak_entry: dict[str, Any] = field(default_factory=dict)
    freed_since: list[Birth] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    bad: int = 0


def walk(trace: Sequence[Any], marks: Sequence[int], number: Number) -> Walk:
    """Follow a trace, oldest entry first; `marks` ascend from 0 to its length.

    `number` gives a stack its number. Entries that make no sense are counted in `bad`.
    """
    ends = _free_action(trace)
    try:
        return _Follow(Walk(marks), number, ends).run(trace)
    except (KeyError, TypeError, AttributeError, IndexError):
        sound = [entry for entry in trace if _is_sound(entry)]
        last = len(sound)
        found = _Follow(Walk([min(mark, last) for mark in marks]), number, ends).run(sound)
        found.bad = len(trace) - last
        return found


def _asked(entries: Sequence[Any]) -> Iterator[int]:
    """The rounded sizes of the requests among these entries."""
    return ((e["size"] + 511) & -512 for e in entries if e["action"] == "alloc")


def _free_action(trace: Sequence[Any]) -> str:
    """`free_completed` gives memory back; with skip_actions only the request may be there."""
    asked = 0
    for entry in trace:
        action = entry.get("action") if isinstance(entry, dict) else None
        if action == "free_completed":
            return "free_completed"
        asked += action == "free_requested"
        if asked > 10_000:
            break
    return "free_requested" if asked else "free_completed"


def _is_sound(entry: Any) -> bool:
    if not isinstance(entry, dict) or not isinstance(entry.get("action"), str):
        return False
    numbers = (entry.get("size"), entry.get("device_free", entry.get("addr")))
    if not all(type(n) is int and 0 <= n < 2**62 for n in numbers):
        return False
    return isinstance(entry.get("frames", ()), list | tuple)


class _Follow:
    def __init__(self, found: Walk, number: Number, ends: str) -> None:
        self.found = found
        self.number = number
        self.ends = ends
        self.skipped = "free_requested" if ends == "free_completed" else "free_completed"
        self.total = 0
        self.reserved = 0
        self.freed: list[Birth] = []

    def run(self, trace: Sequence[Any]) -> Walk:
        found, marks = self.found, self.found.marks
        for mark in range(len(marks) - 1):
            found.allocated.append(self.total)
            found.reserved.append(self.reserved)
            self._between(trace[marks[mark] : marks[mark + 1]], mark)
        found.allocated.append(self.total)
        found.reserved.append(self.reserved)
        if type(self.total) is not int or not -(2**62) < self.total < 2**62:
            raise TypeError("sizes that are no sizes")
        self._survivors()
        found.sizes.update(_asked(trace[-_RECENT:]))
        return found

    def _between(self, entries: Sequence[Any], mark: int) -> None:
        # The loop over a million entries: locals only, and a stack only where it is needed.
        found, live, ends, skipped = self.found, self.found.live, self.ends, self.skipped
        total, peak, freed = self.total, found.peak, self.freed
        pop, append, clear = live.pop, freed.append, freed.clear
        for entry in entries:
            action = entry["action"]
            if action == skipped:
                continue
            if action == "alloc":
                size = (entry["size"] + 511) & -512
                live[entry["addr"]] = (entry, mark, size)
                total += size
                if total > peak:
                    peak = total
                    found.peak_entry = entry
                    clear()
            elif action == ends:
                birth = pop(entry["addr"], None)
                if birth is None:
                    total -= self._older(entry, mark)
                    continue
                total -= birth[2]
                append(birth)
                if birth[1] != mark:
                    self._crossed(birth, entry, mark)
            elif action in _SEGMENTS:
                self.reserved += _SEGMENTS[action] * entry["size"]
            elif action == "oom":
                self._failed(entry, mark)
        self.total, found.peak = total, peak

    def _older(self, entry: dict[str, Any], mark: int) -> int:
        size: int = (entry["size"] + 511) & -512
        change = self.found.gone.setdefault(mark + 1, [0, 0])
        change[0] -= size
        change[1] -= 1
        return size

    def _crossed(self, birth: Birth, end: dict[str, Any], mark: int) -> None:
        entry, born, size = birth
        site = self.number(entry.get("frames"))
        self._change(site, born + 1, size, 1)
        self._change(site, mark + 1, -size, -1)
        # What lives for a few marks only is no list that somebody empties.
        if mark - born >= _LONG:
            self.found.freed_by[site, mark, self.number(end.get("frames"))] += 1

    def _change(self, site: int, mark: int, size: int, count: int) -> None:
        change = self.found.lived[site].setdefault(mark, [0, 0])
        change[0] += size
        change[1] += count

    def _failed(self, entry: dict[str, Any], mark: int) -> None:
        free = entry.get("device_free", entry.get("addr", 0))
        site = self.number(entry.get("frames"))
        self.found.failures.append(Failure(entry["size"], free, site, mark, entry))

    def _survivors(self) -> None:
        for entry, born, size in self.found.live.values():
            self._change(self.number(entry.get("frames")), born + 1, size, 1)
        self.found.freed_since = self.freed
