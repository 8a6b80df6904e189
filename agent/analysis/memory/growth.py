"""How each call site grows: by how much, how surely, in number or in size, and what it is not."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from statistics import median

import msgspec

from gpudiag.agent.analysis.memory import categories
from gpudiag.agent.analysis.memory.frames import Site
from gpudiag.agent.analysis.memory.timeline import Line, Timeline
from gpudiag.agent.analysis.memory.trend import FEW, Trend, judge
from gpudiag.agent.analysis.memory.walk import UNIT

# What is set up once and stays: with few points, its appearance is no leak.
SETTLED = (
    categories.PARAMETERS, categories.GRADIENTS, categories.OPTIMIZER, categories.WORKSPACE,
)  # fmt: skip
MANY_NEW = 32
"""New blocks of one site that speak for one per step, where the steps are not known."""

EVEN = 1.5
"""Intervals of a leak grow alike; those of a warm-up slow down."""


class Growth(msgspec.Struct, frozen=True, kw_only=True):
    """A call site over the points; bytes, rates in bytes per step (or other unit) and per hour.

    `change` is appeared, grew, shrank, gone, stable or churning (other blocks, same number);
    `shape` as in `trend`; `leaks` when it keeps growing; `by` says count, size or both.
    """

    site: Site
    category: str
    change: str
    shape: str
    leaks: bool
    confidence: float
    first: int
    last: int
    count_first: int
    count_last: int
    by: str
    rate: float
    low: float
    high: float
    per_hour: float | None
    kept: int
    new: int
    gone: int
    series: tuple[int, ...]
    freed_elsewhere: bool
    swing: int

    @property
    def grown(self) -> int:
        return self.last - self.first


def growths(line_of: Timeline) -> list[Growth]:
    """Every call site of a timeline, leaks first, then by how much it changed."""
    found = [_growth(line_of, line, bare=not line.site.id) for line in line_of.lines.values()]
    return sorted(found, key=lambda g: (not g.leaks, -g.rate * g.leaks, -abs(g.grown)))


def _growth(points: Timeline, line: Line, *, bare: bool) -> Growth:
    trend = judge(points.xs, line.sizes, least=UNIT - 1)
    sure = _confidence(points, line, trend, bare=bare)
    pace = _pace(points)
    return Growth(
        site=line.site,
        category=line.category,
        change=_change(line),
        shape=trend.shape,
        leaks=sure > 0.0,
        confidence=sure,
        first=line.sizes[0],
        last=line.sizes[-1],
        count_first=line.counts[0],
        count_last=line.counts[-1],
        by=_by(line),
        rate=trend.rate,
        low=trend.low,
        high=trend.high,
        per_hour=trend.rate * 3600.0 / pace if pace and trend.rate else None,
        kept=line.kept,
        new=line.new,
        gone=line.gone,
        series=tuple(line.sizes),
        freed_elsewhere=_freed_elsewhere(line),
        swing=max(line.sizes) - min(line.sizes),
    )


def _pace(points: Timeline) -> float | None:
    """Seconds of one unit; the median of the intervals, so that a pause does not count."""
    pairs = zip(points.xs, points.xs[1:], points.seconds, points.seconds[1:], strict=False)
    paces = [(t - s) / (b - a) for a, b, s, t in pairs if b > a]
    return (median(paces) or None) if paces else None


def _confidence(points: Timeline, line: Line, trend: Trend, *, bare: bool) -> float:
    """How sure it is that this site leaks, 0 for not at all."""
    if trend.shape != "grows":
        return 0.0
    # A capture per shape rises a few times and stops: rises are what is counted.
    if trend.cycles >= FEW and rises(line.sizes) >= FEW - 1:
        return (0.9 if points.cyclic else 0.75) - 0.15 * bare
    if trend.cycles >= FEW or line.category in SETTLED or bare or not _one_a_step(points, line):
        return 0.0
    return 0.5 if trend.cycles == 2 else 0.6


def rises(levels: Sequence[float]) -> int:
    """How often a level lies above the one before."""
    return sum(a < b for a, b in pairwise(levels))


def _one_a_step(points: Timeline, line: Line) -> bool:
    """Whether few points span many cycles, and each cycle left a block behind.

    Only so do fewer than eight points tell a leak from a warm-up: the blocks stand for them.
    """
    more = line.counts[-1] - line.counts[0]
    span = points.xs[-1] - points.xs[0]
    if line.gone > line.new // 4:
        return False
    if points.unit != "step":
        return more >= MANY_NEW
    intervals = zip(pairwise(points.xs), pairwise(line.sizes), strict=True)
    paces = [(d - c) / (b - a) for (a, b), (c, d) in intervals]
    return span >= FEW and more >= span and max(paces) <= EVEN * min(paces)


def _change(line: Line) -> str:
    first, last = line.sizes[0], line.sizes[-1]
    if first == last:
        return "churning" if line.new and line.gone else "stable"
    if not first:
        return "appeared"
    if not last:
        return "gone"
    return "grew" if last > first else "shrank"


def _by(line: Line) -> str:
    """Whether the bytes come from more blocks, from larger ones, or from both."""
    first, last = line.sizes[0], line.sizes[-1]
    if last <= first:
        return ""
    more = line.counts[-1] - line.counts[0]
    typical = first / line.counts[0] if line.counts[0] else last / max(1, line.counts[-1])
    share = more * typical / (last - first)
    return "count" if share >= 0.8 else "size" if share <= 0.2 else "both"


def _freed_elsewhere(line: Line) -> bool:
    """Whether its blocks went in bulk from a place that never names the function that made them.

    So gc frees cycles: at whatever line an allocation sets it off.
    """
    if line.bulk < 4 or not line.freed_at:
        return False
    own = _functions(line.site)[:1]
    return bool(own) and all(not set(own) & set(_functions(site)[:1]) for site in line.freed_at)


def _functions(site: Site) -> Sequence[str]:
    return [f"{site.file} {site.function}"] if site.file else []
