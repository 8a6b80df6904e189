"""Segments as they lie: which live blocks keep which segments, and the rows of the map."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from gpudiag.agent.analysis.memory.digest import Pin, Row
from gpudiag.agent.analysis.memory.pools import MIB, THIN, releasable
from gpudiag.agent.analysis.snapshots import Block, Segment

MOST_PINS = 20
MOST_ROWS = 160
MOST_RUNS = 240
FREE, PENDING = "free", "pending"


def pins(segments: Sequence[Segment], site_of: Callable[[Block], int]) -> list[Pin]:
    """Segments of which less than a fifth is live and a MiB or more is kept, most kept first."""
    found = []
    for segment in segments:
        live = [b for b in segment.blocks if b.live or b.pending]
        used = sum(block.size for block in live)
        free = segment.size - used - releasable(segment)
        if live and free >= MIB and used < THIN * segment.size:
            by: Counter[int] = Counter()
            for block in live:
                by[site_of(block)] += block.size
            found.append(Pin(segment.address, segment.size, free, tuple(by.most_common(3))))
    return sorted(found, key=lambda pin: -pin.free)[:MOST_PINS]


def rows(segments: Sequence[Segment], category_of: Callable[[Block], str]) -> list[Row]:
    """The largest segments in the order of their addresses, as runs of equal use."""
    largest = sorted(segments, key=lambda segment: -segment.size)[:MOST_ROWS]
    return [
        Row(s.address, s.size, s.stream, s.pool != (0, 0), tuple(_runs(s, category_of)))
        for s in sorted(largest, key=lambda segment: segment.address)
    ]


def _runs(segment: Segment, category_of: Callable[[Block], str]) -> Iterator[tuple[int, str]]:
    least = segment.size // MOST_RUNS
    size, what = 0, ""
    for block in segment.blocks:
        kind = PENDING if block.pending else category_of(block) if block.live else FREE
        # What is thinner than a pixel joins the run before it.
        if kind != what and size > least:
            yield size, what
            size = 0
        what = kind if not size or kind == what or block.size > size else what
        size += block.size
    if size:
        yield size, what
