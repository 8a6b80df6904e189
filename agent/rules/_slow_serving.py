"""Why a server became slower: each documented cause looked for, found, ruled out or not seen."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gpudiag.agent.rules import _latency, _throttle
from gpudiag.agent.rules import _serving as serving
from gpudiag.agent.rules._latency import OUTPUTS, PROMPTS, Spell
from gpudiag.agent.rules._serving import Server
from gpudiag.agent.rules.contract import Evidence, Limits, Rival
from gpudiag.agent.window import Series, Window

PRESSURE = "gpudiag_host_pressure_ratio"
CPU_USED = "gpudiag_host_cpu_utilization_ratio"
SWITCHES = "gpudiag_process_context_switches_total"
QUERIES = "gpudiag_serving_prefix_cache_queries_total"
HITS = "gpudiag_serving_prefix_cache_hits_total"
TRENDS = frozenset(
    {
        *(serving.RUNNING, serving.WAITING, serving.KV, serving.GENERATED, serving.PROMPTED),
        *(serving.FINISHED, serving.PREEMPTED, serving.CANARY_SECONDS),
        *(PRESSURE, CPU_USED, SWITCHES, QUERIES, HITS, _throttle.CLOCK),
    }
)


class Look(NamedTuple):
    """What a look for one cause gave: found (confidence > 0), ruled out, or `missing` a series."""

    cause: str
    confidence: float = 0.0
    words: str = ""
    evidence: tuple[Evidence, ...] = ()
    missing: str = ""

    @property
    def rival(self) -> Rival:
        """The same as a rival: why it lost."""
        return Rival(self.cause, self.words if not self.missing else f"not seen: {self.missing}")


class Case(NamedTuple):
    """One server in trouble: the present and the past to compare, and the limits in force."""

    window: Window
    server: Server
    when: Spell
    limits: Limits

    def means(self, metric: str, **match: str) -> tuple[float, float] | None:
        """Of a gauge: its mean in the past and now."""
        series = serving.trend(self.window, metric, self.server, _latency.LOOK_BACK, **match)
        return self.means_of(series)

    def means_of(self, series: Series | None) -> tuple[float, float] | None:
        """The mean in the past and now."""
        if series is None:
            return None
        now = series.values[series.times >= self.when.since - 1.0]
        past = series.values[series.times <= self.when.last]
        return (float(past.mean()), float(now.mean())) if len(now) and len(past) else None

    def rates(self, metric: str, **match: str) -> tuple[float, float] | None:
        """Of a counter: its rise a second in the past and now."""
        series = serving.trend(self.window, metric, self.server, _latency.LOOK_BACK, **match)
        past = serving.rate(series, self.when.first, self.when.last)
        now = serving.rate(series, self.when.since, self.when.until)
        return None if past is None or now is None else (past, now)

    def throughput(self) -> tuple[float, float] | None:
        """Tokens a second, or requests where tokens are not counted."""
        return self.rates(serving.GENERATED) or self.rates(serving.FINISHED, outcome="ok")


def _unseen(case: Case, name: str, metric: str) -> Look:
    """Not seen; of an encoder, which keeps no cache between tokens, there is nothing to see."""
    if serving.encodes(case.window, case.server):
        return Look(name, words="it encodes and keeps no cache of tokens")
    return Look(name, missing=metric)


def gpu_throttled(case: Case) -> Look:
    """A GPU slowed by heat or power, whose clock is seen to have fallen where it is known."""
    name = "gpu-throttled"
    window, limits = case.window, case.limits
    seen = False
    for reason in ("hw_thermal", "sw_thermal", "power_brake", "hw_slowdown", "power_cap"):
        for share in _throttle.shares(window, (reason,), 120.0, 60.0):
            seen = True
            if max(share.ratio, share.spread) < limits["throttled"]:
                continue
            uuid = share.labels.get("uuid", "")
            fell = _clock_fell(case, uuid)
            # At its power limit a GPU is at work, unless the clock gives way by much.
            if (fell is None and reason == "power_cap") or (fell is not None and fell < 0.1):
                continue
            clock = f", its clock fell by {fell:.0%}" if fell is not None else ""
            fact = Evidence(_throttle.ACTIVE, share.ratio, "ratio", "0", dict(share.labels))
            words = f"GPU {uuid} is slowed ({reason}) {share.words}{clock}"
            return Look(name, 0.9 if fell else 0.75, words, (fact,))
    if not seen:
        return Look(name, missing=_throttle.ACTIVE)
    return Look(name, words="no GPU's clock is held down")


def _clock_fell(case: Case, uuid: str) -> float | None:
    found = case.window.minutes(_throttle.CLOCK, _latency.LOOK_BACK, "mean", uuid=uuid, clock="sm")
    both = case.means_of(serving.summed(found))
    if both is not None and both[0]:
        return 1.0 - both[1] / both[0]
    return None


def cpu_starved(case: Case, name: str = "cpu-starved") -> Look:
    """Tasks wait for a CPU, more than they used to."""
    window, limits = case.window, case.limits
    pressure = serving.summed(
        window.minutes(PRESSURE, _latency.LOOK_BACK, "mean", resource="cpu", kind="some")
    )
    both = case.means_of(pressure)
    if both is not None:
        past, now = both
        if now >= limits["pressure"] and now >= 2.0 * past:
            fact = Evidence(PRESSURE, round(now, 3), "ratio", f"{past:.2f}", {"resource": "cpu"})
            return Look(name, 0.85, f"some task waits for a CPU {now:.0%} of the time", (fact,))
        return Look(name, words=f"tasks wait for a CPU {now:.0%} of the time, {past:.0%} before")
    used = case.means_of(serving.summed(window.minutes(CPU_USED, _latency.LOOK_BACK, "mean")))
    pushed = _switches(case)
    if used is None:
        return Look(name, missing=f"{PRESSURE}{{resource=cpu}}")
    if used[1] >= limits["cpu_full"] and used[0] < limits["cpu_full"] - 0.1:
        fact = Evidence(CPU_USED, round(used[1], 3), "ratio", f"{used[0]:.2f}")
        more = pushed is not None and pushed[1] > 2.0 * pushed[0]
        return Look(name, 0.75 if more else 0.6, f"the CPUs are {used[1]:.0%} busy", (fact,))
    return Look(name, words=f"the CPUs are {used[1]:.0%} busy")


def _switches(case: Case) -> tuple[float, float] | None:
    found = serving.summed(
        case.window.minutes(SWITCHES, _latency.LOOK_BACK, "last", role="server", kind="involuntary")
    )
    past = serving.rate(found, case.when.first, case.when.last)
    now = serving.rate(found, case.when.since, case.when.until)
    return None if past is None or now is None else (past, now)


def cache_hit_low(case: Case) -> Look:
    """The prefix cache hits less than it did, while about as much is asked of it."""
    name = "cache-hit-low"
    asked, hit = case.rates(QUERIES), case.rates(HITS)
    if asked is None or hit is None:
        return _unseen(case, name, f"{QUERIES} and {HITS}")
    if not asked[0] or not asked[1]:
        return Look(name, words="nothing was looked up in the prefix cache")
    before, now = hit[0] / asked[0], hit[1] / asked[1]
    words = f"the prefix cache hits {now:.0%} of what is looked up, {before:.0%} before"
    more = asked[1] / asked[0]
    fell = before - now >= case.limits["hits_lost"] and now <= 0.75 * before
    if not fell or not 1.0 / case.limits["traffic"] <= more <= case.limits["traffic"]:
        return Look(name, words=words if not fell else f"{words}, but traffic changed {more:.1f}x")
    fact = Evidence("prefix cache hit ratio", round(now, 3), "ratio", f"{before:.2f}")
    return Look(name, 0.85, f"{words}, at {more:.1f} times the look-ups", (fact,))


def batching_off(case: Case) -> Look:
    """One request at a time while others wait."""
    name = "batching-off"
    running, waiting = case.means(serving.RUNNING), case.means(serving.WAITING)
    if running is None or waiting is None:
        return Look(name, missing=f"{serving.RUNNING} and {serving.WAITING}")
    limit = serving.value(case.window, serving.BATCH, case.server)
    words = f"{running[1]:.1f} requests run at a time while {waiting[1]:.1f} wait"
    if waiting[1] < 1.0 or running[1] > 1.05 or running[1] <= 0.3:
        return Look(name, words=words)
    full = serving.value(case.window, serving.KV, case.server)
    if full is not None and full >= 0.9 and (limit is None or limit > 1.0):
        return Look(name, words=f"{words}, but the cache is full")
    facts = (
        Evidence(serving.RUNNING, round(running[1], 2), "requests", f"{max(running[0], 2.0):.0f}"),
        Evidence(serving.WAITING, round(waiting[1], 1), "requests", "0"),
    )
    return Look(name, 0.9 if limit == 1.0 or running[0] > 2.0 else 0.8, words, facts)


def overload(case: Case) -> Look:
    """Past the knee: the queue grows and throughput does not."""
    name = "overload"
    waiting = case.means(serving.WAITING)
    if waiting is None:
        return Look(name, missing=serving.WAITING)
    running, through = case.means(serving.RUNNING), case.throughput()
    words = f"{waiting[1]:.0f} requests wait, {waiting[0]:.0f} before"
    least = max(2.0, 2.0 * waiting[0] + 1.0, 0.1 * (running[1] if running else 0.0))
    if waiting[1] < least:
        return Look(name, words=words)
    facts = [Evidence(serving.WAITING, round(waiting[1], 1), "requests", f"{waiting[0]:.1f}")]
    if through is None:
        return Look(name, 0.55, f"{words}; throughput is not counted", tuple(facts))
    facts.append(Evidence("throughput", round(through[1], 2), "a second", f"{through[0]:.2f}"))
    if through[1] < case.limits["through_lost"] * through[0]:
        return Look(name, words=f"{words}, but throughput fell to {through[1] / through[0]:.0%}")
    gain = through[1] / through[0] if through[0] else 1.0
    return Look(name, 0.8, f"{words}, and throughput is {gain:.1f} times what it was", tuple(facts))


def preemption_thrash(case: Case) -> Look:
    """The cache is full, requests are thrown out and done again."""
    name = "preemption-thrash"
    thrown = case.rates(serving.PREEMPTED)
    full = serving.value(case.window, serving.KV, case.server)
    waiting = case.means(serving.WAITING)
    if thrown is None:
        return _unseen(case, name, serving.PREEMPTED)
    words = f"{thrown[1] * 60.0:.1f} requests a minute are thrown out of the batch"
    cached = case.means(serving.KV)
    level = cached[1] if cached else full
    rising = thrown[1] * 60.0 >= case.limits["thrown_out"] and thrown[1] >= 3.0 * thrown[0]
    starved = level is None or level >= case.limits["kv_full"]
    if not rising or not starved or (waiting is not None and waiting[1] <= 0.0):
        cache = f" and the cache is {level:.0%} full" if level is not None else ""
        return Look(name, words=f"{words}{cache}")
    through = case.throughput()
    fell = through is not None and through[1] <= 0.9 * through[0]
    facts = [Evidence(serving.PREEMPTED, round(thrown[1], 3), "a second", f"{thrown[0]:.3f}")]
    if level is not None:
        facts.append(Evidence(serving.KV, round(level, 3), "ratio", "< 1"))
    if through is not None:
        facts.append(Evidence("throughput", round(through[1], 1), "a second", f"{through[0]:.1f}"))
    return Look(name, 0.9 if fell else 0.7, words, tuple(facts))


def long_requests(case: Case) -> Look:
    """A few requests became far longer while the usual one did not."""
    name = "long-requests-block-short"
    seen = False
    for metric, what in ((PROMPTS, "prompts"), (OUTPUTS, "outputs")):
        moved = _latency.shift(case.window, metric, case.server)
        if moved is None or not moved.tails:
            continue
        seen = True
        tail = moved.worst(case.limits["longer"])
        if tail is None or moved.middle.moved(case.limits["longer"]):
            continue
        words = (
            f"the longest {what} (p{100 * tail.q:.0f}) have {tail.now:.0f} tokens, {tail.usual:.0f}"
            f" before, while the middle stands at {moved.middle.now:.0f}"
        )
        return Look(name, 0.85, words, (Evidence(metric, tail.now, "tokens", f"{tail.usual:.0f}"),))
    if not seen:
        return _by_means(case, name)
    return Look(name, words="the longest requests are as long as they were")


def _by_means(case: Case, name: str) -> Look:
    """Without lengths: tokens of prompts for each finished request."""
    tokens, done = case.rates(serving.PROMPTED), case.rates(serving.FINISHED)
    if tokens is None or done is None or not done[0] or not done[1] or not tokens[0]:
        return Look(name, missing=f"{PROMPTS} (its buckets)")
    before, now = tokens[0] / done[0], tokens[1] / done[1]
    if now < 1.5 * before:
        return Look(name, words=f"a request has {now:.0f} prompt tokens, {before:.0f} before")
    fact = Evidence("prompt tokens a request", now, "tokens", f"{before:.0f}")
    return Look(name, 0.6, f"a request has {now:.0f} prompt tokens, {before:.0f} before", (fact,))


def merge_policy(case: Case) -> Look:
    """Requests wait although the batch has room for them."""
    name = "merge-policy"
    limit = serving.value(case.window, serving.BATCH, case.server)
    running, waiting = case.means(serving.RUNNING), case.means(serving.WAITING)
    if limit is None or running is None or waiting is None:
        return Look(name, missing=f"{serving.BATCH} beside running and waiting")
    words = f"{waiting[1]:.1f} requests wait while {running[1]:.1f} of {limit:.0f} run"
    cached = case.means(serving.KV)
    if cached is not None and cached[1] >= 0.9:
        return Look(name, words=f"{words}, but the cache is {cached[1]:.0%} full")
    always = _share_waiting(case)
    if waiting[1] < 1.0 or always < 0.6:
        return Look(name, words=words)
    facts = (
        Evidence(serving.WAITING, round(waiting[1], 1), "requests", "0 while the batch has room"),
        Evidence(serving.RUNNING, round(running[1], 1), "requests", f"{limit:.0f}"),
    )
    below = running[1] < case.limits["batch_room"] * limit
    return Look(name, 0.8 if below else 0.6, words, facts)


def _share_waiting(case: Case) -> float:
    series = serving.trend(case.window, serving.WAITING, case.server, _latency.LOOK_BACK)
    if series is None:
        return 0.0
    now = series.values[series.times >= case.when.since - 1.0]
    return float(np.mean(now > 0.0)) if len(now) else 0.0
