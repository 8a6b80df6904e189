"""The slowest requests became slower while the middle held."""

from __future__ import annotations

from collections.abc import Iterator

from gpudiag.agent.rules import _latency, _serving
from gpudiag.agent.rules import _slow_serving as slow
from gpudiag.agent.rules._latency import Quantile, Shift
from gpudiag.agent.rules._serving import Server
from gpudiag.agent.rules._slow_verdict import LIMITS, diagnosis
from gpudiag.agent.rules.contract import Healthy, Limits, Rule, Threshold, Verdict
from gpudiag.agent.window import Window


def check(window: Window, limits: Limits) -> Iterator[Verdict]:
    """Judge every server whose latencies have a past, or whose cache is full and thrown about."""
    buckets = tuple(f"{metric}_bucket" for metric in _latency.LATENCIES)
    for server in _serving.servers(window, (*_serving.SIGNS_OF_LIFE, *buckets)):
        found = [s for s in _latency.shifts(window, server) if s.tails]
        thrash = _thrash(window, limits, server)
        tail = _tail(limits, found)
        if tail is not None:
            case = slow.Case(window, server, tail[0].spell, limits)
            yield diagnosis(case, _looks(case), *tail)
        elif thrash is not None:
            yield diagnosis(thrash, _looks(thrash), None, None)
        elif found:
            yield Healthy(server.who)


def _tail(limits: Limits, found: list[Shift]) -> tuple[Shift, Quantile] | None:
    """The latency whose tail moved farthest, where no middle moved."""
    if any(s.middle.moved(limits["middle"]) for s in found):
        return None
    ahead = [s for s in found if s.metric != _latency.REQUEST] or found
    # A request that writes more takes longer: that alone makes nobody else wait.
    moved = [(s, tail) for s in ahead if (tail := s.worst(limits["tail"])) is not None]
    return max(moved, key=lambda one: one[1].now / max(one[1].usual, 1e-9), default=None)


def _looks(case: slow.Case) -> list[slow.Look]:
    return [
        slow.preemption_thrash(case),
        slow.cpu_starved(case, "host-cpu-starved"),
        slow.cache_hit_low(case),
        slow.long_requests(case),
        slow.merge_policy(case),
    ]


def _thrash(window: Window, limits: Limits, server: Server) -> slow.Case | None:
    """A full cache with requests thrown out and less done: seen without any latency."""
    if (_serving.value(window, _serving.KV, server) or 0.0) < limits["kv_full"]:
        return None
    cached = _serving.trend(window, _serving.KV, server, _latency.LOOK_BACK)
    when = _latency.spell(cached.times, _latency.SPANS[0]) if cached is not None else None
    if when is None:
        return None
    case = slow.Case(window, server, when, limits)
    return case if slow.preemption_thrash(case).confidence >= limits["sure"] else None


RULE = Rule(
    check=check,
    trends=_latency.TRENDS | slow.TRENDS,
    hold=60.0,
    clear=300.0,
    thresholds={
        **LIMITS,
        "middle": Threshold(
            1.7, "ratio", "of the median to its own past: beyond it all requests are slower"
        ),
        "tail": Threshold(2.5, "ratio", "of p95 or p99 to its own past"),
        "sure": Threshold(0.85, "ratio", "confidence: thrown out, cache full and less done"),
    },
)
