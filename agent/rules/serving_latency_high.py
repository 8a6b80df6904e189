"""Requests in the middle became slower: not a few of them, the usual one."""

from __future__ import annotations

from collections.abc import Iterator

from gpudiag.agent.rules import _latency, _serving, _throttle
from gpudiag.agent.rules import _slow_serving as slow
from gpudiag.agent.rules._latency import Shift
from gpudiag.agent.rules._serving import Server
from gpudiag.agent.rules._slow_verdict import LIMITS, diagnosis
from gpudiag.agent.rules.contract import Healthy, Limits, Rule, Threshold, Verdict
from gpudiag.agent.window import Window


def check(window: Window, limits: Limits) -> Iterator[Verdict]:
    """Judge every server whose latencies have a past, or that runs one request at a time."""
    counted = tuple(f"{metric}_count" for metric in _latency.LATENCIES)
    buckets = tuple(f"{metric}_bucket" for metric in _latency.LATENCIES)
    seen = (*_serving.SIGNS_OF_LIFE, *counted, *buckets, _serving.CANARY_SECONDS)
    for server in _serving.servers(window, seen):
        found = _latency.shifts(window, server)
        moved = [s for s in found if s.middle.moved(limits["middle"])]
        moved = [s for s in moved if not _owed_to_length(window, limits, s, server)]
        alone = _one_at_a_time(window, limits, server) if not moved else None
        if moved:
            yield _judged(window, limits, server, max(moved, key=_by_how_much))
        elif alone is not None:
            yield diagnosis(alone, _looks(alone), None, None)
        elif found:
            yield Healthy(server.who)


def _by_how_much(shift: Shift) -> float:
    return shift.middle.now / max(shift.middle.usual, 1e-9)


def _owed_to_length(window: Window, limits: Limits, shift: Shift, server: Server) -> bool:
    """Whether the requests themselves became longer, which makes no server slower."""
    longer = _latency.longer(window, shift, server)
    return longer > 1.2 and _by_how_much(shift) < limits["beyond_length"] * longer


def _judged(window: Window, limits: Limits, server: Server, shift: Shift) -> Verdict:
    case = slow.Case(window, server, shift.spell, limits)
    return diagnosis(case, _looks(case), shift, shift.middle)


def _looks(case: slow.Case) -> list[slow.Look]:
    return [
        slow.gpu_throttled(case),
        slow.cpu_starved(case),
        slow.batching_off(case),
        slow.cache_hit_low(case),
        slow.overload(case),
    ]


def _one_at_a_time(window: Window, limits: Limits, server: Server) -> slow.Case | None:
    """One runs while others wait, which needs no past to be seen."""
    running = _serving.value(window, _serving.RUNNING, server)
    waiting = _serving.value(window, _serving.WAITING, server)
    if running is None or running > 1.0 or not waiting:
        return None
    queue = _serving.trend(window, _serving.WAITING, server, _latency.LOOK_BACK)
    if queue is None or queue.times[-1] - queue.times[0] < _latency.SPANS[0]:
        return None
    until, first = float(queue.times[-1]), float(queue.times[0])
    since = until - _latency.SPANS[0]
    when = _latency.Spell(since, until, first, max(since, first + 60.0))
    recent = queue.values[queue.times >= when.since - 1.0]
    case = slow.Case(window, server, when, limits)
    busy = recent.min() >= limits["queue"] and slow.batching_off(case).confidence > 0.0
    # Without passes that advance this is a stall and no slowness.
    through = case.throughput()
    return case if busy and through is not None and through[1] > 0.0 else None


RULE = Rule(
    check=check,
    reads=_throttle.READS,
    trends=_latency.TRENDS | slow.TRENDS,
    hold=30.0,
    clear=300.0,
    thresholds={
        **LIMITS,
        "middle": Threshold(
            1.7, "ratio", "of the median to its own past; a full batch alone costs less"
        ),
        "beyond_length": Threshold(
            1.6, "ratio", "of the slow-down to the requests' own growth, which explains the rest"
        ),
        "queue": Threshold(1.0, "requests", "waiting all along while one runs"),
    },
)
