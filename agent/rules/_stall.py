"""Whether an engine with work before it advances, and what its signs of life are."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from gpudiag.agent.rules import _serving as serving
from gpudiag.agent.rules._serving import Server
from gpudiag.agent.rules._spans import held_since
from gpudiag.agent.window import Series, Window

SWITCHES = "gpudiag_process_context_switches_total"
ENGINE_UP = "gpudiag_serving_engine_up"
FIRST_TOKENS = "gpudiag_serving_ttft_seconds_count"
LOOK_BACK = 3600.0
RECENT = 120.0
TOKENS = (serving.GENERATED, serving.PROMPTED)
LOAD = (serving.RUNNING, serving.WAITING, serving.UNANSWERED)

# Words by which an engine that hangs, or a watchdog over it, gives itself away.
HUNG = re.compile(
    r"No available (?:shared memory broadcast )?block found|EngineDeadError|[Ww]atchdog.{0,40}time"
    r"d? ?out|RPC call to \S+ timed out|execute_model timed out|TimeoutError: RPC|engine core"
    r".{0,20}(?:unresponsive|dead|died)",
    re.IGNORECASE,
)
LOOP = re.compile(
    r"empty schedul|scheduled (?:0|no) (?:req|seq|token)|no requests? (?:was |were )?scheduled"
    r"|nothing (?:to|was) schedul|scheduler.{0,30}(?:loop|iteration|step|idle|pass)"
    r"|running: 0 req.{0,40}waiting: [1-9]|#running-req: 0.{0,80}#queue-req: [1-9]",
    re.IGNORECASE,
)
CANARY_WELL = re.compile(r"canary.{0,40}\b(?:ok|passed|answered)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Stall:
    """An engine that has had work since `since` and did none: what moved, and what did not.

    `counters` are those that could have moved; `load` the newest figures of what it has before it.
    """

    server: Server
    since: float
    until: float
    counters: dict[str, Series]
    load: dict[str, float] = field(default_factory=dict)

    @property
    def seconds(self) -> float:
        """For how long."""
        return self.until - self.since

    @property
    def empty_passes(self) -> bool:
        """Whether the heartbeat goes on although nothing is worked on."""
        steps = self.counters.get(serving.STEPS)
        return steps is not None and (serving.rate(steps, self.since, self.until) or 0.0) > 0.0


def load(window: Window, server: Server) -> dict[str, float]:
    """The newest figures of what is before the engine: running, waiting, unanswered."""
    found = {metric: serving.value(window, metric, server) for metric in LOAD}
    return {metric: value for metric, value in found.items() if value is not None}


def advances(window: Window, server: Server, now: dict[str, float]) -> bool:
    """The cheap question first: whether any work was done in the last moments."""
    idle = now.get(serving.RUNNING) == 0.0
    for metric in (*TOKENS, serving.STEPS):
        if metric == serving.STEPS and idle:
            continue
        recent = serving.history(window, metric, server, RECENT)
        if recent is not None and len(recent.times) > 1 and recent.values[-1] > recent.values[-2]:
            return True
    return False


def stall(window: Window, server: Server, now: dict[str, float]) -> Stall | None:
    """How long there has been work and none was done; None where nothing could tell."""
    pending = _pending(window, server)
    if pending is None:
        return None
    counters = _counters(window, server)
    # Passes over an empty batch are no work: where tokens are counted, these alone are.
    empty = now.get(serving.RUNNING) == 0.0 and any(metric in counters for metric in TOKENS)
    work = [s for metric, s in counters.items() if not (empty and metric == serving.STEPS)]
    # Counters that are read no more say nothing of what was done since.
    until = min([pending[1], max((float(s.times[-1]) for s in work), default=pending[1])])
    rises = [rise for s in work if (rise := serving.last_rise(s)) is not None]
    first = min((float(s.times[0]) for s in work), default=pending[0])
    since = max(pending[0], *rises) if rises else max(pending[0], first)
    return Stall(server, since, until, counters, now)


def _pending(window: Window, server: Server) -> tuple[float, float] | None:
    """Since when, and until when, requests have been before the engine without a break."""
    spans = [serving.history(window, metric, server, LOOK_BACK) for metric in LOAD]
    whole = serving.summed([s for s in spans if s is not None])
    if whole is None:
        return None
    since = held_since(whole, whole.values > 0.0)
    # Nobody knows what went on while nothing was read: a restart, as likely as not.
    return None if since is None else (max(since, serving.unbroken(whole)), float(whole.times[-1]))


def _counters(window: Window, server: Server) -> dict[str, Series]:
    found = {
        metric: serving.history(window, metric, server, LOOK_BACK)
        for metric in (serving.STEPS, *TOKENS, FIRST_TOKENS)
    }
    found[serving.FINISHED] = serving.history(
        window, serving.FINISHED, server, LOOK_BACK, outcome="ok"
    )
    return {m: s for m, s in found.items() if s is not None and len(s.times) > 1}


def longest_pause(window: Window, one: Stall) -> float:
    """The longest time before this one in which work waited and none was done, in seconds."""
    running = serving.history(window, serving.RUNNING, one.server, LOOK_BACK)
    longest = 0.0
    for series in one.counters.values():
        rises = series.times[1:][np.diff(series.values) > 0.0]
        rises = rises[rises <= one.since]
        for start, end in pairwise(rises):
            if end - start > longest and _busy(running, float(start), float(end)):
                longest = float(end - start)
        if len(rises) > 2:
            return longest
    return longest


def _busy(running: Series | None, start: float, end: float) -> bool:
    if running is None:
        return False
    inside = (running.times > start) & (running.times < end)
    return bool(inside.any() and (running.values[inside] > 0.0).all())


def frozen_signs(window: Window, one: Stall, *, alone: bool) -> list[str]:
    """What says that the figures stand still and not the engine; empty where nothing does."""
    signs = []
    held = one.load.get(serving.RUNNING, 0.0) + one.load.get(serving.WAITING, 0.0)
    if held and one.load.get(serving.UNANSWERED) == 0.0:
        signs.append("the front end owes nobody an answer")
    seconds = window.now - one.since
    gone = serving.history(
        window, serving.FINISHED, one.server, seconds + RECENT, outcome="aborted"
    )
    if held and gone is not None and gone.values[-1] - gone.values[0] >= held / 2.0:
        signs.append(f"{gone.values[-1] - gone.values[0]:.0f} requests were given up just then")
    if _canary_answers(window, one, alone=alone):
        signs.append("the canary request is answered as ever")
    return signs


def _canary_answers(window: Window, one: Stall, *, alone: bool) -> bool:
    after = window.now - one.since
    for event in serving.said(window, after, one.server, alone=alone):
        if event.source == "serving" and CANARY_WELL.search(event.line):
            return True
    well = serving.history(window, serving.CANARY, one.server, after)
    if well is None or well.values.min() < 1.0:
        return False
    took = serving.history(window, serving.CANARY_SECONDS, one.server, after)
    again = took is not None and len(np.unique(took.values)) > 1
    # One that came just before may stand for a while: it is news only after some time.
    return again or one.seconds >= RECENT


def loop_signs(window: Window, one: Stall, *, alone: bool) -> list[str]:
    """What says that the engine's loop still turns, though it does nothing."""
    signs = ["passes are counted while no request runs"] if one.empty_passes else []
    lines = [
        event.line
        for event in serving.said(window, window.now - one.since, one.server, alone=alone)
        if LOOP.search(event.line)
    ]
    if len(lines) > 1:
        signs.append(f"it logs on: {lines[-1][:160]}")
    pids = window.series(SWITCHES, LOOK_BACK, role="server")
    by_pid: dict[str, list[Series]] = {}
    for series in pids:
        by_pid.setdefault(series.labels.get("pid", ""), []).append(series)
    if by_pid and all(_still_switches(serving.summed(s), one) for s in by_pid.values()):
        signs.append("its process is on the CPU as before")
    return signs


def _still_switches(series: Series | None, one: Stall) -> bool:
    if series is None:
        return False
    before = serving.rate(series, one.since - LOOK_BACK, one.since)
    since = serving.rate(series, one.since, one.until)
    return since is not None and since >= max(0.5 * (before or 0.0), 1.0)


def hung_words(window: Window, one: Stall, *, alone: bool) -> str:
    """The newest line by which a hang gives itself away, or nothing."""
    seconds = window.now - one.since + RECENT
    lines = [e.line for e in serving.said(window, seconds, one.server, alone=alone)]
    return next((line for line in reversed(lines) if HUNG.search(line)), "")
