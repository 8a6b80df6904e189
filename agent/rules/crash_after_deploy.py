"""The process crashes since it was deployed: what it runs in is not what it was made for."""

from __future__ import annotations

from collections.abc import Iterator

from gpudiag.agent.rules import _serving
from gpudiag.agent.rules._deploys import Crashes, crashes
from gpudiag.agent.rules._gpus import INFO
from gpudiag.agent.rules.contract import (
    UNDETERMINED,
    Diagnosis,
    Evidence,
    Healthy,
    Limits,
    Rival,
    Rule,
    Subject,
    Suggestion,
    Threshold,
    Verdict,
    subject,
)
from gpudiag.agent.window import Window
from gpudiag.probes import Event

DRIFTED, MISMATCH = "environment-drift", "driver-framework-mismatch"
SOURCES = ("process", "kubernetes")


def check(window: Window, limits: Limits) -> Iterator[Verdict]:
    """Judge what the last minutes tell of starts, exits and the words between them."""
    servers = _serving.servers(window)
    # Most nodes see no start at all for days: without an end or a back-off nothing is read.
    ended = any(window.events(limits["remember"], source=source) for source in SOURCES)
    if not ended:
        for server in servers:
            yield Healthy(server.who)
        return
    found = crashes(window, limits["remember"], limits["early"])
    who = _who(found, servers)
    said = _judge(window, who, found)
    if said is not None:
        yield said
    for server in servers:
        if said is None or server.who != who:
            yield Healthy(server.who)


def _who(found: Crashes, servers: list[_serving.Server]) -> Subject:
    if len(servers) == 1:
        return servers[0].who
    named = [s for s in servers if s.name and s.name in found.name]
    if named:
        return max(named, key=lambda s: len(s.name)).who
    return subject(server=found.name) if found.name else ()


def _judge(window: Window, who: Subject, found: Crashes) -> Diagnosis | None:
    ends = [*found.exits, *found.back_offs]
    if not ends:
        return None
    changed = _driver_changed(window)
    if found.driver:
        sure = 0.93 if found.exits or found.back_offs else 0.75
        return _of(who, MISMATCH, sure, found.driver, ends)
    if found.drift or (changed and found.environment):
        lines = [*found.drift, *found.environment]
        return _of(who, DRIFTED, 0.92, lines, ends, changed)
    if found.environment:
        return _of(who, DRIFTED, 0.8, found.environment, ends, changed, _MANIFEST)
    if found.looped and not found.memory and not found.killed and found.starts:
        return _of(who, UNDETERMINED, 0.5, [], ends, changed, (*_LOG, *_MANIFEST))
    return None


def _driver_changed(window: Window) -> str:
    """A driver that is not the one of before, as the GPUs themselves tell it."""
    known: dict[str, list[str]] = {}
    for labels in window.seen(INFO):
        drivers = known.setdefault(labels.get("uuid", ""), [])
        if labels.get("driver") and labels["driver"] not in drivers:
            drivers.append(labels["driver"])
    both = next((d for d in known.values() if len(d) > 1), [])
    return f"driver {both[0]} -> {both[-1]}" if both else ""


def _of(
    who: Subject,
    cause: str,
    confidence: float,
    lines: list[Event],
    ends: list[Event],
    changed: str = "",
    missing: tuple[str, ...] = (),
) -> Diagnosis:
    told = "; ".join(dict.fromkeys(event.line.strip()[:200] for event in lines[-3:]))
    words = told or "nothing that it left behind says why"
    also = f"; {changed}" if changed else ""
    name = dict(who).get("server", "a process")
    facts = [Evidence(e.source, e.line) for e in (*lines[-3:], ends[-1])]
    if changed:
        facts.append(Evidence(INFO, changed, "", "one driver"))
    return Diagnosis(
        who,
        cause,
        confidence,
        f"{name} dies after its start ({len(ends)} times seen): {words}{also}.",
        tuple(facts),
        rivals=tuple(Rival(c, why) for c, why in _WHY_NOT.items() if c != cause),
        missing=missing,
        actions=_ACTIONS[cause],
        since=min(event.time for event in (*lines, *ends)),
    )


_LOG = ("the log of the process from its start to its end",)
_MANIFEST = ("the environment recorded when it last worked: packages, image, driver, variables",)
_WHY_NOT = {
    DRIFTED: "no import, symbol or setting is named that changed",
    MISMATCH: "no line says that the driver is too old for the CUDA runtime",
}
_BACK = Suggestion("degrade", "Roll back to the image that worked; the old one is the undo.")
_ACTIONS = {
    DRIFTED: (
        Suggestion("notify", "Name the lines to whoever deployed: pin versions and digest."),
        _BACK,
    ),
    MISMATCH: (
        _BACK,
        Suggestion("notify", "Update the node's driver, or build for the CUDA it supports."),
    ),
    UNDETERMINED: (Suggestion("observe", "Read `kubectl logs --previous` of the pod."), _BACK),
}

RULE = Rule(
    check=check,
    events=frozenset({"process", "kubernetes", "log"}),
    hold=0.0,
    clear=300.0,
    thresholds={
        "remember": Threshold(1800.0, "seconds", "Kubernetes' back-off doubles up to five minutes"),
        "early": Threshold(900.0, "seconds", "from start to end: large weights take so long"),
    },
)
