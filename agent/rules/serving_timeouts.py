"""Requests time out: their answers are too long, their prompts are, or their turn never came."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from gpudiag.agent.rules import _latency, _serving
from gpudiag.agent.rules._latency import OUTPUTS, PROMPTS, QUEUE, REQUEST, TTFT, Spell
from gpudiag.agent.rules._serving import Server
from gpudiag.agent.rules._slow_serving import Case, Look
from gpudiag.agent.rules.contract import (
    UNDETERMINED,
    Diagnosis,
    Evidence,
    Healthy,
    Limits,
    Rule,
    Suggestion,
    Threshold,
    Verdict,
)
from gpudiag.agent.window import Window

UNBOUNDED, PREFILL, WAITED = "unbounded-generation", "long-prefill", "queue-timeout"
LINE = re.compile(
    r"(?:request|generation|generate|deadline|gateway|upstream|client|inference)\b.{0,60}"
    r"(?:timed? ?-?out|timeout|deadline exceeded)|\b504\b|DEADLINE_EXCEEDED",
    re.IGNORECASE,
)
# Timeouts of collectives and health probes are other troubles with pages of their own.
NOT_A_REQUEST = re.compile(r"NCCL|watchdog|ProcessGroup|/health|liveness|readiness", re.IGNORECASE)
NO_LIMIT = frozenset({"", "none", "unlimited", "unset", "null", "-1", "0"})


class _Lost(NamedTuple):
    """Timeouts in the recent past: how many, their share of all requests where that is known."""

    many: float
    share: float | None
    usual: float
    when: Spell
    since: float


def check(window: Window, limits: Limits) -> Iterator[Verdict]:
    """Judge every server that counts its requests by outcome, or whose log tells of timeouts."""
    found = _serving.servers(window, (_serving.FINISHED, *_serving.SIGNS_OF_LIFE))
    for server in found:
        counted = _counted(window, limits, server)
        lost = counted if isinstance(counted, _Lost) else None
        lost = lost or _told(window, limits, server, alone=len(found) == 1)
        if lost is not None:
            yield _diagnosis(Case(window, server, lost.when, limits), lost)
        elif counted is not None:
            yield Healthy(server.who)


def _counted(window: Window, limits: Limits, server: Server) -> _Lost | bool | None:
    """What the counter tells; True where it tells of no trouble, None where there is none."""
    total = _serving.value(window, _serving.FINISHED, server)
    if total is None:
        return None
    if not _serving.value(window, _serving.FINISHED, server, outcome="timeout"):
        return True
    series = _serving.history(window, _serving.FINISHED, server, limits["past"], outcome="timeout")
    if series is None or len(series.times) < 3:
        return True
    until = float(series.times[-1])
    since = max(until - limits["recent"], float(series.times[0]))
    rate = _serving.rate(series, since, until) or 0.0
    many = rate * (until - since)
    before = _serving.rate(series, float(series.times[0]), since) or 0.0
    all_ = _serving.history(window, _serving.FINISHED, server, limits["recent"])
    whole = float(all_.values[-1] - all_.values[0]) if all_ is not None else 0.0
    share = min(many / whole, 1.0) if whole else None
    risen = many >= limits["few"] and rate >= limits["risen"] * before
    often = many >= limits["few"] and (share or 0.0) >= limits["often"]
    if not (risen and (share or 1.0) >= limits["share"]) and not often:
        return True
    first = float(series.times[0])
    when = Spell(since, until, first, max(first, min(since, first + (since - first) * 0.7)))
    return _Lost(many, share, before, when, since)


def _told(window: Window, limits: Limits, server: Server, *, alone: bool) -> _Lost | None:
    """Lines of the server's log, where its counters tell nothing of timeouts."""
    events = [
        event
        for event in _serving.said(window, limits["recent"], server, alone=alone)
        if _serving.holds(LINE, event.line) and not NOT_A_REQUEST.search(event.line)
    ]
    if len(events) < limits["few"]:
        return None
    since = events[0].time
    first = since - limits["past"]
    when = Spell(since, window.now, first, since)
    return _Lost(float(len(events)), None, 0.0, when, since)


def _diagnosis(case: Case, lost: _Lost) -> Diagnosis:
    looks = [_waited(case), _prefill(case), _unbounded(case)]
    best = max(looks, key=lambda look: look.confidence)
    found = best.confidence > 0.0
    others = [look for look in looks if look is not best or not found]
    share = "" if lost.share is None else f" ({lost.share:.0%} of all)"
    words = best.words if found else "what they waited for was not seen"
    return Diagnosis(
        case.server.who,
        best.cause if found else UNDETERMINED,
        best.confidence if found else 0.5,
        f"{case.server.title}: {lost.many:.0f} requests timed out in"
        f" {(case.when.until - lost.since) / 60.0:.0f} min{share}; {words}.",
        (
            Evidence(_serving.FINISHED, round(lost.many, 1), "timeouts", f"{lost.usual:.3g}/s"),
            *(best.evidence if found else ()),
        ),
        rivals=tuple(look.rival for look in others),
        missing=() if found else tuple(look.missing for look in others if look.missing),
        actions=_ACTIONS[best.cause if found else UNDETERMINED],
        since=lost.since,
    )


def _waited(case: Case) -> Look:
    """Their time went by in the queue."""
    queue = _latency.shift(case.window, QUEUE, case.server)
    waiting = case.means(_serving.WAITING)
    if queue is None and waiting is None:
        return Look(WAITED, missing=f"{QUEUE} or {_serving.WAITING}")
    worst = queue.worst(2.0) if queue else None
    if queue is not None and worst is None and queue.middle.moved(2.0):
        worst = queue.middle
    stands = waiting is not None and waiting[1] >= max(2.0, 1.5 * waiting[0] + 1.0)
    if not stands and worst is None:
        seen = f"{waiting[1]:.0f} wait" if waiting else f"p95 in the queue {queue_now(queue)}"
        return Look(WAITED, words=f"{seen}, as before")
    facts, words = [], []
    if waiting is not None and stands:
        facts.append(Evidence(_serving.WAITING, round(waiting[1], 1), "requests", "near 0"))
        words.append(f"{waiting[1]:.0f} requests wait for their turn")
    if worst is not None:
        facts.append(Evidence(QUEUE, round(worst.now, 2), "seconds", f"{worst.usual:.2f}"))
        words.append(f"the slowest wait {worst.now:.0f} s for their turn")
    return Look(WAITED, 0.9 if worst else 0.75, " and ".join(words), tuple(facts))


def queue_now(queue: _latency.Shift | None) -> str:
    """The time in the queue in words."""
    return f"{queue.middle.now:.2f} s" if queue else "not counted"


def _prefill(case: Case) -> Look:
    """Their prompts are long, and the first token comes late."""
    prompts = _latency.shift(case.window, PROMPTS, case.server)
    first = _latency.shift(case.window, TTFT, case.server)
    if prompts is None and first is None:
        encodes = _serving.encodes(case.window, case.server)
        return Look(PREFILL, missing=PROMPTS if encodes else f"{PROMPTS} and {TTFT}")
    longer = prompts and (prompts.worst(1.7) or _moved(prompts))
    later = first and (first.worst(1.7) or _moved(first))
    if longer is None:
        return Look(PREFILL, words="prompts are as long as they were")
    fact = Evidence(PROMPTS, longer.now, "tokens", f"{longer.usual:.0f}")
    words = f"the longest prompts have {longer.now:.0f} tokens, {longer.usual:.0f} before"
    if later is None and first is not None:
        return Look(PREFILL, words=f"{words}, but the first token comes as soon")
    return Look(PREFILL, 0.85 if later else 0.6, words, (fact,))


def _moved(shift: _latency.Shift) -> _latency.Quantile | None:
    return shift.middle if shift.middle.moved(1.7) else None


def _unbounded(case: Case) -> Look:
    """Those that time out are those that write longest, and nothing bounds them."""
    if _serving.encodes(case.window, case.server):
        return Look(UNBOUNDED, words="it encodes and writes no tokens")
    outputs = _latency.shift(case.window, OUTPUTS, case.server)
    whole = _latency.shift(case.window, REQUEST, case.server)
    longer = outputs and (outputs.worst(1.5) or _moved(outputs))
    bound = _bounded(case)
    if longer is not None:
        fact = Evidence(OUTPUTS, longer.now, "tokens", f"{longer.usual:.0f}")
        words = f"the longest answers have {longer.now:.0f} tokens, {longer.usual:.0f} before"
        return Look(UNBOUNDED, 0.8 if bound else 0.88, words, (fact,))
    tokens, done = case.rates(_serving.GENERATED), case.rates(_serving.FINISHED)
    if outputs is None and tokens and done and done[0] and done[1] and tokens[0]:
        before, now = tokens[0] / done[0], tokens[1] / done[1]
        if now >= 1.5 * before:
            fact = Evidence("tokens a request", now, "tokens", f"{before:.0f}")
            words = f"a request writes {now:.0f} tokens, {before:.0f} before"
            return Look(UNBOUNDED, 0.65, words, (fact,))
        return Look(UNBOUNDED, words=f"a request writes {now:.0f} tokens, {before:.0f} before")
    if outputs is None:
        return Look(UNBOUNDED, missing=OUTPUTS)
    slow = "; requests take longer" if whole and whole.worst(1.5) else ""
    return Look(UNBOUNDED, words=f"answers are as long as they were{slow}")


def _bounded(case: Case) -> bool:
    match = {"server": case.server.name} if case.server.name else {}
    for point in case.window.latest(_serving.CONFIG, **match):
        if point.labels.get("max_model_len", "?").lower() in NO_LIMIT:
            return False
    return True


_ACTIONS = {
    UNBOUNDED: (
        Suggestion("degrade", "Set a limit for output tokens and stop words at the gateway."),
        Suggestion("notify", "Which client sends them: temperature 0 and no limit repeats itself."),
    ),
    PREFILL: (
        Suggestion("degrade", "Long prompts to a pool of their own, with a longer deadline."),
    ),
    WAITED: (
        Suggestion("degrade", "Refuse at once (429) what cannot be served within its deadline."),
        Suggestion("notify", "Add a replica, or find what makes this one slower."),
    ),
    UNDETERMINED: (Suggestion("observe", "Look at the timed-out requests in the gateway's log."),),
}

RULE = Rule(
    check=check,
    reads=frozenset({_serving.FINISHED}),
    trends=_latency.TRENDS
    | frozenset({_serving.WAITING, _serving.GENERATED, _serving.FINISHED, _serving.CANARY_SECONDS}),
    events=frozenset({"log"}),
    hold=15.0,
    clear=300.0,
    thresholds={
        "recent": Threshold(300.0, "seconds", "five minutes, the span of a usual error-rate alert"),
        "past": Threshold(7200.0, "seconds", "as much as is kept sample by sample"),
        "few": Threshold(5.0, "requests", "one client that gives up a few times is no state"),
        "risen": Threshold(3.0, "ratio", "to the rate of timeouts before"),
        "share": Threshold(0.01, "ratio", "of all requests: 99 % is a usual objective"),
        "often": Threshold(0.1, "ratio", "of all requests, whatever was before"),
    },
)
