"""How the latencies of a server moved against its own past: the middle, and the tail."""

from __future__ import annotations

from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from gpudiag.agent.rules import _serving as serving
from gpudiag.agent.rules._serving import Server
from gpudiag.agent.rules._spans import Floats
from gpudiag.agent.window import Series, Window

TTFT = "gpudiag_serving_ttft_seconds"
BETWEEN = "gpudiag_serving_inter_token_seconds"
REQUEST = "gpudiag_serving_request_seconds"
QUEUE = "gpudiag_serving_queue_seconds"
PROMPTS = "gpudiag_serving_request_prompt_tokens"
OUTPUTS = "gpudiag_serving_request_generation_tokens"
LATENCIES = (TTFT, BETWEEN, REQUEST, QUEUE)
PARTS = ("_bucket", "_sum", "_count")
TRENDS = frozenset(m + part for m in (*LATENCIES, PROMPTS, OUTPUTS) for part in PARTS)

LOOK_BACK = 6 * 3600.0
SPANS = (300.0, 600.0, 1200.0)
SLICES = 5
SPARED = 7200.0
GRACE = 120.0
REFRESH = 20.0
FEW, FEW_FOR_99 = 6.0, 60.0
# Below this a latency is no wait that anybody could notice, whatever its ratio.
LEAST = {QUEUE: 0.1, BETWEEN: 0.005}
TRIFLE = 0.01


class Spell(NamedTuple):
    """The present from `since` to `until`, and the past from `first` to `last` to compare with."""

    since: float
    until: float
    first: float
    last: float


class Quantile(NamedTuple):
    """One quantile `q` of a latency: `usual` and present, and the most it was in the past."""

    q: float
    usual: float
    now: float
    most: float
    resolved: bool

    def moved(self, ratio: float) -> bool:
        """Whether it rose so far beyond its own past, by more than its bucket's width."""
        return self.resolved and self.now >= ratio * self.usual and self.now > 1.2 * self.most


class Shift(NamedTuple):
    """What became of one histogram: its middle and its tails against its own past."""

    metric: str
    spell: Spell
    middle: Quantile
    tails: tuple[Quantile, ...] = ()

    def worst(self, ratio: float) -> Quantile | None:
        """The tail that moved farthest, if one did."""
        moved = [tail for tail in self.tails if tail.moved(ratio)]
        return max(moved, key=lambda tail: tail.now / max(tail.usual, 1e-9), default=None)


def spell(times: Floats, span: float) -> Spell | None:
    """The last `span` seconds, and a past that leaves out what may already be in trouble."""
    if len(times) < 2:
        return None
    return _spell(float(times[0]), float(times[-1]), span)


def _spell(first: float, until: float, span: float) -> Spell | None:
    since = until - span
    last = max(since - SPARED, first + (since - first) / 2.0)
    return Spell(since, until, first, last) if last - first >= span / 2.0 else None


class Counts(NamedTuple):
    """A histogram over time: upper `edges` (b,), `times` (t,), cumulative `counts` (b, t)."""

    edges: Floats
    times: Floats
    counts: Floats

    def within(self, starts: Floats, ends: Floats) -> Floats:
        """Cumulative counts (b, n) of what fell into n spans."""
        n = len(self.edges)
        first = np.stack([np.interp(starts, self.times, self.counts[b]) for b in range(n)])
        last = np.stack([np.interp(ends, self.times, self.counts[b]) for b in range(n)])
        # Buckets of which a reading is missing lag behind: no bucket holds less than a lower one.
        rose: Floats = np.maximum.accumulate(last - first, axis=0)
        return rose

    def quantiles(self, within: Floats, q: float) -> Floats:
        """The quantile (n,) of each span, linear inside its bucket; the last edge is open."""
        wanted = q * within[-1]
        bucket = np.minimum((within < wanted).sum(axis=0), len(self.edges) - 1)
        column = np.arange(within.shape[1])
        finite = np.isfinite(self.edges)
        top = np.where(finite, self.edges, self.edges[finite].max(initial=0.0))[bucket]
        low = np.where(bucket > 0, self.edges[bucket - 1], 0.0)
        below = np.where(bucket > 0, within[bucket - 1, column], 0.0)
        inside = np.maximum(within[bucket, column] - below, 1e-9)
        part = np.clip((wanted - below) / inside, 0.0, 1.0)
        found: Floats = np.where(top > low, low + (top - low) * part, top)
        return found


def counts(window: Window, metric: str, server: Server) -> Counts | None:
    """The histogram `metric` of a server by minutes of the last hours; None without buckets."""
    rows = _rows(window.minutes(f"{metric}_bucket", LOOK_BACK, "last", **_match(server)))
    if rows is None:
        return None
    return _counts(rows)


def newest(window: Window, metric: str, server: Server, seconds: float) -> Counts | None:
    """The same reading by reading for the last `seconds`, where all buckets were read."""
    rows = _rows(window.series(f"{metric}_bucket", seconds, **_match(server)))
    return _counts(rows) if rows is not None else None


def _match(server: Server) -> dict[str, str]:
    return {"server": server.name} if server.name else {}


def _rows(found: list[Series]) -> dict[float, Series] | None:
    """The buckets by their edge, summed over engines; None where they make no histogram."""
    by_edge: dict[float, list[Series]] = {}
    for series in found:
        edge = _edge(series.labels.get("le", ""))
        if len(series.times) > 1 and edge == edge:
            by_edge.setdefault(edge, []).append(series)
    rows = {edge: one for edge in sorted(by_edge) if (one := serving.summed(by_edge[edge]))}
    return rows if len(rows) > 1 else None


def _counts(rows: dict[float, Series]) -> Counts | None:
    # A bucket whose newest reading is missing would seem not to have risen.
    end = min(float(row.times[-1]) for row in rows.values())
    start = max(float(row.times[0]) for row in rows.values())
    times = rows[max(rows)].times
    times = times[(times >= start) & (times <= end)]
    if len(times) < 2:
        return None
    grid = [
        r.values if np.array_equal(r.times, times) else np.interp(times, r.times, r.values)
        for r in rows.values()
    ]
    return Counts(np.array(list(rows)), times, np.stack(grid))


def _edge(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return np.nan


_known: WeakKeyDictionary[Window, tuple[int, dict[tuple[str, Server], Shift | None]]] = (
    WeakKeyDictionary()
)


def shift(window: Window, metric: str, server: Server) -> Shift | None:
    """How `metric` moved; None where its past or its present holds too few requests."""
    # What spans five minutes is no other five seconds later, and several rules ask for it.
    turn = int(window.now // REFRESH)
    held = _known.get(window)
    if held is None or held[0] != turn:
        held = _known[window] = (turn, {})
    key = (metric, server)
    if key not in held[1]:
        held[1][key] = _shift(window, metric, server)
    return held[1][key]


def _shift(window: Window, metric: str, server: Server) -> Shift | None:
    found = counts(window, metric, server)
    if found is None:
        return _shift_of_mean(window, metric, server)
    for span in SPANS:
        recent = newest(window, metric, server, span + GRACE)
        if recent is None or not _covers(recent, found, span):
            recent = found
        first, until = float(found.times[0]), float(recent.times[-1])
        when = _spell(first, until, span)
        if when is None:
            return None
        edges = np.linspace(when.since, when.until, SLICES + 1)
        slices = recent.within(edges[:-1], edges[1:])
        if slices[-1].min() >= FEW:
            return _compared(found, metric, when, slices)
    return None


def _covers(recent: Counts, found: Counts, span: float) -> bool:
    """Whether the readings reach back over the span, with the same buckets."""
    same = np.array_equal(recent.edges, found.edges)
    return same and float(recent.times[-1] - recent.times[0]) >= span


def _compared(found: Counts, metric: str, when: Spell, slices: Floats) -> Shift | None:
    length = min(when.until - when.since, (when.last - when.first) / 3.0)
    starts = np.arange(when.first, when.last - 0.9 * length, length)
    past = found.within(starts, starts + length)
    past = past[:, past[-1] >= FEW]
    if not past.shape[1]:
        return None
    whole = slices.sum(axis=1, keepdims=True)
    least = LEAST.get(metric, TRIFLE)
    wanted = [0.5, 0.95] + ([0.99] if slices[-1].min() >= FEW_FOR_99 else [])
    made = [_quantile(found, q, whole, slices, past, least) for q in wanted]
    return Shift(metric, when, made[0], tuple(made[1:]))


def _quantile(
    found: Counts, q: float, whole: Floats, slices: Floats, past: Floats, least: float
) -> Quantile:
    before = found.quantiles(past, q)
    usual = float(np.median(before))
    # All slices but one must have moved: a burst of a few minutes is no state.
    second = float(np.sort(found.quantiles(slices, q))[1])
    now = min(float(found.quantiles(whole, q)[0]), 1.2 * second)
    buckets = np.searchsorted(found.edges, [usual, now])
    resolved = bool(buckets[1] > buckets[0]) and now - usual >= least
    return Quantile(q, usual, now, float(np.quantile(before, 0.8)), resolved)


def _shift_of_mean(window: Window, metric: str, server: Server) -> Shift | None:
    """Without buckets the mean stands for the middle."""
    total = serving.trend(window, f"{metric}_sum", server, LOOK_BACK)
    number = serving.trend(window, f"{metric}_count", server, LOOK_BACK)
    if total is None or number is None:
        return None
    when = spell(number.times, SPANS[0])
    if when is None:
        return None
    usual = _mean(total, number, when.first, when.last)
    middle = (when.since + when.until) / 2.0
    halves = [_mean(total, number, a, b) for a, b in ((when.since, middle), (middle, when.until))]
    if usual is None or halves[0] is None or halves[1] is None:
        return None
    now = min(halves[0], halves[1])
    least = LEAST.get(metric, TRIFLE)
    return Shift(metric, when, Quantile(0.5, usual, now, usual, now - usual >= least))


def _mean(total: Series, number: Series, start: float, end: float) -> float | None:
    many, much = (serving.rate(series, start, end) for series in (number, total))
    return much / many if many and much is not None else None


def canary(window: Window, server: Server) -> Shift | None:
    """The canary's own time, where no histogram tells of the requests'."""
    took = serving.trend(window, serving.CANARY_SECONDS, server, LOOK_BACK)
    when = spell(took.times, SPANS[0]) if took is not None else None
    if took is None or when is None:
        return None
    past = took.values[took.times <= when.last]
    now = took.values[took.times > when.since]
    if len(now) < 2 or len(past) < 2:
        return None
    usual, least = float(np.median(past)), float(np.median(now))
    most = float(np.quantile(past, 0.9))
    return Shift(
        serving.CANARY_SECONDS, when, Quantile(0.5, usual, least, most, least - usual >= TRIFLE)
    )


def shifts(window: Window, server: Server) -> list[Shift]:
    """Every latency that can be compared with its past; the canary's where there is no other."""
    found = [one for metric in LATENCIES if (one := shift(window, metric, server))]
    if not found and (asked := canary(window, server)):
        found = [asked]
    return found


def longer(window: Window, one: Shift, server: Server) -> float:
    """By what factor requests themselves became longer in the middle: what a shift owes to them."""
    length = {TTFT: PROMPTS, REQUEST: OUTPUTS}.get(one.metric)
    moved = shift(window, length, server) if length else None
    return moved.middle.now / moved.middle.usual if moved and moved.middle.usual else 1.0
