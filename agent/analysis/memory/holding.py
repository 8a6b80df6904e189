"""Who holds what is live: each block's call site, category and age, summed per call site."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gpudiag.agent.analysis.memory import categories
from gpudiag.agent.analysis.memory.digest import Live
from gpudiag.agent.analysis.memory.frames import Sites
from gpudiag.agent.analysis.memory.walk import UNIT, Birth, Walk
from gpudiag.agent.analysis.snapshots import Block, Segment
from gpudiag.agent.analysis.snapshots.shape import whole

TENTHS = 10
MOST_HOLDS = 400
_OPTIMIZER_SPAN = "Optimizer.step"


@dataclass
class Held:
    """The live blocks with what is known of each, by address. Sums are bytes."""

    blocks: list[Block] = field(default_factory=list)
    sites: dict[int, int] = field(default_factory=dict)
    categories: dict[int, str] = field(default_factory=dict)
    inferred: set[int] = field(default_factory=set)
    births: dict[int, Birth] = field(default_factory=dict)
    holds: list[Live] = field(default_factory=list)
    live: int = 0
    pending: int = 0
    requested: int = 0
    framed: int = 0

    def site_of(self, block: Block) -> int:
        return self.sites.get(block.address, 0)

    def category_of(self, block: Block) -> str:
        return self.categories.get(block.address, categories.UNATTRIBUTED)

    def born_of(self, block: Block) -> int:
        birth = self.births.get(block.address)
        return (whole(birth[0].get("time_us")) or 0) if birth else 0


def hold(
    segments: Sequence[Segment],
    walked: Walk,
    sites: Sites,
    annotations: Sequence[Mapping[str, Any]],
) -> Held:
    """What is live and whose it is. A block that the trace saw takes the trace's stack."""
    held = Held()
    spans = _optimizer_spans(annotations)
    for segment in segments:
        for block in segment.blocks:
            if block.live or block.pending:
                _add(held, block, walked, sites, spans)
    _infer(held)
    held.holds = _summed(held, len(walked.marks))
    return held


def _add(
    held: Held, block: Block, walked: Walk, sites: Sites, spans: Sequence[tuple[int, int]]
) -> None:
    birth = walked.live.get(block.address)
    entry = birth[0] if birth else {}
    site = sites.number(block.frames) or sites.number(entry.get("frames"))
    held.blocks.append(block)
    held.live += block.size * block.live
    held.pending += block.size * block.pending
    held.requested += block.requested
    held.framed += block.size * bool(site)
    held.sites[block.address] = site
    if birth:
        held.births[block.address] = birth
    profiled = categories.by_profiler(entry.get("category"))
    category = profiled or categories.by_site(
        sites.found[site].hints, block.size, framed=bool(site)
    )
    if category == categories.UNATTRIBUTED and birth and _inside(entry, spans):
        category = categories.OPTIMIZER
    held.categories[block.address] = category


def _optimizer_spans(annotations: Sequence[Mapping[str, Any]]) -> list[tuple[int, int]]:
    spans, start = [], None
    for note in annotations:
        if note["name"].startswith(_OPTIMIZER_SPAN):
            if note.get("stage") == "START":
                start = note["time_us"]
            elif start is not None:
                spans.append((start, note["time_us"]))
                start = None
    return sorted(spans)


def _inside(entry: Mapping[str, Any], spans: Sequence[tuple[int, int]]) -> bool:
    time = whole(entry.get("time_us")) or 0
    at = bisect_right(spans, (time, 2**63)) - 1
    return at >= 0 and spans[at][0] <= time <= spans[at][1]


def _infer(held: Held) -> None:
    """Give blocks without frames the categories that their sizes imply."""
    bare = [
        b
        for b in held.blocks
        if held.categories[b.address] == categories.UNATTRIBUTED and b.address not in held.births
    ]
    known: Counter[tuple[str, int]] = Counter()
    for block in held.blocks:
        category = held.categories[block.address]
        if category in (categories.GRADIENTS, categories.OPTIMIZER):
            known[category, block.size] += 1
    counts = Counter(block.size for block in bare)
    given = categories.by_size(counts, ((c, s, n) for (c, s), n in known.items()))
    for block in bare:
        if wanted := given.get(block.size):
            held.categories[block.address] = wanted.pop(0)
            held.inferred.add(block.address)


def _summed(held: Held, marks: int) -> list[Live]:
    sums: dict[tuple[int, str, bool], list[int]] = {}
    for block in held.blocks:
        at = block.address
        key = held.sites[at], held.categories[at], at in held.inferred
        tally = sums.setdefault(key, [0] * (4 + TENTHS))
        tally[0] += block.size
        tally[1] += min(block.size, (block.requested + UNIT - 1) // UNIT * UNIT or UNIT)
        tally[2] += 1
        birth = held.births.get(at)
        tally[3 + (1 + birth[1] * TENTHS // max(1, marks - 1) if birth else 0)] += 1
    return _largest(sums)


def _largest(sums: Mapping[tuple[int, str, bool], Sequence[int]]) -> list[Live]:
    ranked = sorted(sums.items(), key=lambda item: -item[1][0])
    # A site with many small blocks may be the leak: it stays, however few its bytes.
    kept = ranked[:MOST_HOLDS] + [item for item in ranked[MOST_HOLDS:] if item[1][2] >= 3]
    return [
        Live(site, category, t[0], t[1], t[2], guessed, tuple(t[3:]))
        for (site, category, guessed), t in kept[: 4 * MOST_HOLDS]
    ]


def at_peak(walked: Walk, held: Held, sites: Sites) -> list[Live]:
    """Who held what when the recording's memory was highest."""
    if not walked.peak_entry:
        return []
    time = whole(walked.peak_entry.get("time_us"))
    sums: dict[tuple[int, str, bool], list[int]] = {}
    for block in held.blocks:
        if block.address not in held.births:
            key = held.sites[block.address], held.categories[block.address], False
            _tally(sums, key, block.size)
    for entry, _, size in [*walked.freed_since, *walked.live.values()]:
        born = whole(entry.get("time_us"))
        if time is not None and born is not None and born > time:
            continue
        site = sites.number(entry.get("frames"))
        category = categories.by_profiler(entry.get("category")) or categories.by_site(
            sites.found[site].hints, size, framed=bool(site)
        )
        _tally(sums, (site, category, False), size)
    return _largest(sums)[:60]


def _tally(
    sums: dict[tuple[int, str, bool], list[int]], key: tuple[int, str, bool], size: int
) -> None:
    tally = sums.setdefault(key, [0, 0, 0])
    tally[0] += size
    tally[1] += size
    tally[2] += 1
