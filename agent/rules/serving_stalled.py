"""Requests wait and the engine does not advance, whatever its health endpoint says."""

from __future__ import annotations

from collections.abc import Iterator

from gpudiag.agent.rules import _runaway, _serving, _stall
from gpudiag.agent.rules._serving import Server
from gpudiag.agent.rules._stall import Stall
from gpudiag.agent.rules.contract import (
    UNDETERMINED,
    Diagnosis,
    Evidence,
    Healthy,
    Limits,
    Rival,
    Rule,
    Suggestion,
    Threshold,
    Unknown,
    Verdict,
)
from gpudiag.agent.window import Window

HUNG, LIVELOCK, RUNAWAY, FROZEN = (
    "engine-hung",
    "scheduler-livelock",
    "runaway-request",
    "gauges-frozen",
)


def check(window: Window, limits: Limits) -> Iterator[Verdict]:
    """Judge every server that says what is before it; of several engines the worst one counts."""
    found = _serving.servers(window, _stall.LOAD)
    for server in found:
        said = [
            _judge(window, limits, engine, alone=len(found) == 1)
            for engine in _serving.engines(window, server)
        ]
        order = (Diagnosis, Unknown, Healthy)
        yield min(said, key=lambda verdict: order.index(type(verdict)))


def _judge(window: Window, limits: Limits, server: Server, *, alone: bool) -> Verdict:
    now = _stall.load(window, server)
    if not any(value > 0.0 for value in now.values()):
        return Healthy(server.who)
    if _stall.advances(window, server, now):
        return _runaway_or_healthy(window, limits, server, now)
    one = _stall.stall(window, server, now)
    if one is None or _serving.value(window, _serving.LOADED, server) == 0.0:
        return Healthy(server.who)
    dead = _serving.value(window, _stall.ENGINE_UP, server) == 0.0
    if not one.counters and not dead:
        return _without_counters(limits, one)
    usual = 0.0 if dead else limits["pauses"] * _stall.longest_pause(window, one)
    if one.seconds < max(limits["stalled"], usual):
        return Healthy(server.who)
    return _diagnosis(window, one, dead=dead, alone=alone)


def _without_counters(limits: Limits, one: Stall) -> Verdict:
    if one.seconds < 2.0 * limits["stalled"]:
        return Healthy(one.server.who)
    return Unknown(
        one.server.who, (f"{_serving.STEPS} or another count of work done: gauges may stand still",)
    )


def _runaway_or_healthy(
    window: Window, limits: Limits, server: Server, now: dict[str, float]
) -> Verdict:
    """What moves is not stalled, however full it is, unless one request alone is what moves."""
    alone = _runaway.found(window, server, now, limits["endless"], limits["pauses"])
    if alone is None:
        return Healthy(server.who)
    return Diagnosis(
        server.who,
        RUNAWAY,
        0.8 if alone.kv is None or alone.kv >= limits["full"] else 0.7,
        f"{server.title}: {now[_serving.RUNNING]:.0f} request(s) have run for "
        f"{alone.seconds / 60.0:.0f} min without an end while {now[_serving.WAITING]:.0f} wait.",
        (
            Evidence(_serving.RUNNING, now[_serving.RUNNING], "requests", f"{alone.usual:.0f}"),
            Evidence(_serving.WAITING, now[_serving.WAITING], "requests", "0"),
            Evidence("without a finished request", alone.seconds, "seconds", f"{alone.pause:.0f}"),
            *((Evidence(_serving.KV, alone.kv, "ratio"),) if alone.kv is not None else ()),
        ),
        rivals=(
            Rival(HUNG, "the engine generates tokens"),
            Rival(LIVELOCK, "a request runs and advances"),
        ),
        actions=_ACTIONS[RUNAWAY],
        since=alone.since,
    )


def _diagnosis(window: Window, one: Stall, *, dead: bool, alone: bool) -> Diagnosis:
    frozen = [] if dead else _stall.frozen_signs(window, one, alone=alone)
    words = _stall.hung_words(window, one, alone=alone)
    loop = [] if dead or words else _stall.loop_signs(window, one, alone=alone)
    if frozen and not words:
        return _of(one, FROZEN, 0.6 + 0.12 * len(frozen), frozen, _NOT_FROZEN)
    if loop:
        return _of(one, LIVELOCK, 0.75 + 0.08 * len(loop), loop, _NOT_LIVELOCK)
    if dead:
        return _of(one, HUNG, 0.95, ["the engine's process is gone"], _NOT_HUNG)
    if words:
        return _of(one, HUNG, 0.93, [words], _NOT_HUNG)
    if _serving.STEPS in one.counters:
        return _of(one, HUNG, 0.85, ["its heartbeat stands still"], _NOT_HUNG)
    return _of(one, UNDETERMINED, 0.6, [], _EITHER, _SETTLES)


def _of(
    one: Stall,
    cause: str,
    confidence: float,
    signs: list[str],
    rivals: tuple[Rival, ...],
    missing: tuple[str, ...] = (),
) -> Diagnosis:
    figures = ", ".join(
        f"{value:.0f} {metric.rsplit('_', 1)[1]}" for metric, value in one.load.items()
    )
    what = "its figures stand still" if cause == FROZEN else "no work is done"
    why = f"; {'; '.join(signs)}" if signs else ""
    return Diagnosis(
        one.server.who,
        cause,
        min(confidence, 0.95),
        f"{one.server.title}: {figures}, and {what} for {one.seconds / 60.0:.1f} min{why}.",
        (
            *(Evidence(metric, value, "requests") for metric, value in one.load.items()),
            *(
                Evidence(metric, 0.0, "in the stall", "rising while requests wait")
                for metric, series in one.counters.items()
                if series.values[-1] == series.values[-2]
            ),
            *(Evidence("sign", sign) for sign in signs),
        ),
        rivals=rivals,
        missing=missing,
        actions=_ACTIONS[cause],
        severity="warning" if cause == FROZEN else None,
        since=one.since,
    )


_NOT_HUNG = (
    Rival(LIVELOCK, "no sign that its loop still turns"),
    Rival(FROZEN, "no sign that requests are answered"),
)
_NOT_LIVELOCK = (
    Rival(HUNG, "its loop turns"),
    Rival(RUNAWAY, "no request advances"),
)
_NOT_FROZEN = (
    Rival(HUNG, "nobody waits for an answer, or answers come"),
    Rival(LIVELOCK, "nobody waits for an answer, or answers come"),
)
_EITHER = (
    Rival(HUNG, "possible: nothing tells whether its loop still turns"),
    Rival(LIVELOCK, "possible: nothing tells whether its loop still turns"),
)
_SETTLES = (
    f"{_serving.STEPS}: a heartbeat tells passes that do nothing from none at all",
    "`py-spy dump --pid PID` of the engine, twice: the same stack = hung, other ones = livelock",
)
_DUMP = Suggestion("observe", "Take `py-spy dump --pid PID` of the engine twice before anything.")
_RESTART = Suggestion("drain", "Take the server out of the load balancer; its clients then retry.")
_AGAIN = Suggestion("restart", "Restart the engine once the stacks are saved; what runs is lost.")
_ACTIONS = {
    HUNG: (_DUMP, _RESTART, _AGAIN),
    LIVELOCK: (_DUMP, _RESTART, _AGAIN),
    UNDETERMINED: (_DUMP, _RESTART),
    RUNAWAY: (
        Suggestion("degrade", "Abort the request that runs, and set a limit for output tokens."),
    ),
    FROZEN: (
        Suggestion("notify", "Do not restart: send one request, which refreshes the figures."),
        Suggestion("degrade", "Let the router weigh by answers, not by these gauges, until then."),
    ),
}

RULE = Rule(
    check=check,
    reads=frozenset(
        {
            *_stall.LOAD,
            _serving.KV,
            _serving.STEPS,
            *_stall.TOKENS,
            _serving.FINISHED,
            _serving.CANARY,
            _serving.CANARY_SECONDS,
            _stall.FIRST_TOKENS,
            _stall.SWITCHES,
        }
    ),
    events=frozenset({"serving"}),
    thresholds={
        "stalled": Threshold(
            60.0, "seconds", "three times SGLang's own health timeout of 20 s for any output"
        ),
        "pauses": Threshold(
            3.0, "ratio", "of the longest pause under load that the engine has come back from"
        ),
        "endless": Threshold(
            180.0, "seconds", "without a finished request; 9,000 tokens at 50 tokens a second"
        ),
        "full": Threshold(0.9, "ratio", "of the KV cache, held by a few requests"),
    },
)
