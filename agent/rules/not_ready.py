"""The server is up and cannot do its work: readiness that means something."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from gpudiag.agent.rules import _ready, _serving
from gpudiag.agent.rules._serving import Server
from gpudiag.agent.rules._spans import held_since
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
    Verdict,
)
from gpudiag.agent.window import Window

UNLOADED, UNSTABLE, CANARY, MISLEADING = (
    "model-not-loaded",
    "memory-unstable",
    "canary-failed",
    "probe-misleading",
)


class _Found(NamedTuple):
    cause: str
    confidence: float
    since: float
    words: str
    evidence: tuple[Evidence, ...]
    missing: tuple[str, ...] = ()


def check(window: Window, limits: Limits) -> Iterator[Verdict]:
    """Judge every server by its loading, its memory, its canary and what is probed of it."""
    told = (_serving.LOADED, _serving.CANARY, *_serving.SIGNS_OF_LIFE)
    found = _serving.servers(window, told)
    for server in found:
        said = _judge(window, limits, server, alone=len(found) == 1)
        if said is not None:
            yield _diagnosis(server, said)
        else:
            yield Healthy(server.who)


def _judge(window: Window, limits: Limits, server: Server, *, alone: bool) -> _Found | None:
    said = _misleading(window, limits, server, alone=alone)
    if said is not None or _serving.value(window, _serving.UP, server) == 0.0:
        return said
    ready = _ready.down(window, _serving.READY, server)
    loaded = _ready.down(window, _serving.LOADED, server)
    if loaded is not None:
        return _unloaded(window, limits, server, loaded, alone=alone)
    said = _unstable(window, limits, server, ready, alone=alone)
    said = said or _canary(window, limits, server)
    return said or (_unready(window, limits, server, ready, alone=alone) if ready else None)


def _misleading(window: Window, limits: Limits, server: Server, *, alone: bool) -> _Found | None:
    """A liveness probe that fails while work is done."""
    failed = _ready.probes_failed(window, server, limits["probed"], alone=alone)
    if not failed:
        return None
    killed = [event for event in failed if "Killing" in event.line or "will be rest" in event.line]
    if not killed and len(failed) < limits["probes"]:
        return None
    moment = failed[-1].time
    busy = _ready.moves(window, server, moment - _ready.SHORT, moment + 5.0)
    if not busy and not _ready.loads_still(window, server, alone=alone):
        return None
    what = "work is done" if busy else "the model is being loaded"
    return _Found(
        MISLEADING,
        0.9 if busy and killed else 0.8,
        failed[0].time,
        f"its liveness probe failed {len(failed)} times while {what}",
        (Evidence("kubernetes", failed[-1].line, "", "no failed liveness probe"),),
    )


def _unloaded(
    window: Window, limits: Limits, server: Server, loaded: _ready.Down, *, alone: bool
) -> _Found | None:
    error = _ready.load_error(window, server, alone=alone)
    patience = limits["lasting"] if error or loaded.was_up else limits["loading"]
    if loaded.seconds < patience:
        return None
    if not error and _ready.loads_still(window, server, alone=alone):
        return None
    why = f": {error}" if error else ", and nothing shows that it still loads"
    fact = Evidence(_serving.LOADED, 0.0, "", "1", {"server": server.name})
    facts = (fact, Evidence("log", error)) if error else (fact,)
    words = f"it has answered for {loaded.seconds / 60.0:.0f} min without a model{why}"
    return _Found(UNLOADED, 0.92 if error else 0.85, loaded.since, words, facts)


def _unstable(
    window: Window, limits: Limits, server: Server, ready: _ready.Down | None, *, alone: bool
) -> _Found | None:
    """Memory that does not settle, with a readiness that does not either."""
    flapped = _ready.flaps(window, _serving.READY, server, limits["probed"])
    unready = ready is not None and ready.seconds >= limits["lasting"]
    failing = _canary(window, limits, server) is not None
    if not unready and flapped < limits["flaps"] and not failing:
        return None
    swing = _ready.swing(window, server, limits["swing_span"], alone=alone)
    if swing is None or swing.ratio < limits["swing"]:
        return None
    if swing.metric == _ready.USED:
        # One fall and one rise are a restart, unless the model stayed loaded all along.
        stayed = _serving.history(window, _serving.LOADED, server, limits["swing_span"])
        if swing.falls < 2 and (stayed is None or stayed.values.min() < 1.0):
            return None
        words = f"GPU memory moves by {swing.ratio:.0%} of its level within minutes"
    else:
        words = f"{swing.level:.0f} allocations failed or were tried again"
    fact = Evidence(swing.metric, round(swing.ratio, 3), "ratio", f"< {limits['swing']:g}")
    since = ready.since if ready else window.now - limits["swing_span"]
    return _Found(UNSTABLE, 0.8, since, f"it is not ready and {words}", (fact,))


def _canary(window: Window, limits: Limits, server: Server) -> _Found | None:
    """A minimal request that does not return what it should."""
    if _serving.value(window, _serving.CANARY, server) != 0.0:
        return None
    series = _serving.history(window, _serving.CANARY, server, _ready.LOOK_BACK)
    since = held_since(series, series.values == 0.0) if series is not None else None
    if series is None or since is None:
        return None
    failed = int((series.times >= since).sum())
    started = since > series.times[0] or _serving.value(window, _serving.READY, server) == 1.0
    # One that never answered may still be loading, and nobody else tells of it.
    patience = limits["lasting"] if started else limits["loading"]
    if float(series.times[-1]) - since < patience or failed < limits["canaries"]:
        return None
    ready = _serving.value(window, _serving.READY, server)
    beside = " although it says that it is ready" if ready == 1.0 else ""
    words = f"its canary request has failed for {(window.now - since) / 60.0:.0f} min{beside}"
    return _Found(CANARY, 0.85, since, words, (Evidence(_serving.CANARY, 0.0, "", "1"),))


def _unready(
    window: Window, limits: Limits, server: Server, ready: _ready.Down, *, alone: bool
) -> _Found | None:
    """It says itself that it is not ready, and nothing so far says why."""
    error = _ready.load_error(window, server, alone=alone)
    loaded = _serving.value(window, _serving.LOADED, server)
    fact = Evidence(_serving.READY, 0.0, "", "1", {"server": server.name})
    if error and loaded is None and ready.seconds >= limits["lasting"]:
        words = f"it is not ready, its model was not loaded: {error}"
        return _Found(UNLOADED, 0.85, ready.since, words, (fact, Evidence("log", error)))
    if ready.seconds < limits["loading"]:
        return None
    waiting = _serving.value(window, _serving.WAITING, server)
    busy = _ready.moves(window, server, window.now - _ready.SHORT, window.now)
    if busy:
        # One that is being drained works as well, but nothing waits before it any more.
        if not waiting:
            return None
        words = "it says that it is not ready, and works: the endpoint fails under load"
        return _Found(MISLEADING, 0.7, ready.since, words, (fact,))
    if loaded is None and _ready.loads_still(window, server, alone=alone):
        return None
    missing = tuple(
        name for name in (_serving.LOADED, _serving.CANARY, _ready.USED) if not window.latest(name)
    )
    words = f"it has not been ready for {ready.seconds / 60.0:.0f} min"
    return _Found(UNDETERMINED, 0.55, ready.since, words, (fact,), missing)


def _diagnosis(server: Server, said: _Found) -> Diagnosis:
    return Diagnosis(
        server.who,
        said.cause,
        said.confidence,
        f"{server.title}: {said.words}.",
        said.evidence,
        rivals=tuple(Rival(c, why) for c, why in _WHY_NOT.items() if c != said.cause),
        missing=said.missing,
        actions=_ACTIONS[said.cause],
        since=said.since,
    )


_WHY_NOT = {
    UNLOADED: "nothing says that its model is not loaded",
    UNSTABLE: "its memory is calm, or was not seen",
    CANARY: "no canary request is seen to fail",
    MISLEADING: "no probe is seen to fail while work is done",
}
_ACTIONS = {
    UNLOADED: (
        Suggestion("notify", "Look for the model's path, its rights and space for it; its log."),
        Suggestion("restart", "Once the files are there: restart this replica."),
    ),
    UNSTABLE: (
        Suggestion("degrade", "A smaller memory fraction or batch; nobody else on its GPU."),
    ),
    CANARY: (
        Suggestion("drain", "Take it out of the load balancer: it answers, but not right."),
        Suggestion("observe", "Send the canary by hand and read the answer."),
    ),
    MISLEADING: (
        Suggestion("notify", "Do not restart: it is busy, not dead. Raise the probe's timeout."),
        Suggestion("degrade", "Probe an endpoint that needs no turn; a startup probe for loading."),
    ),
    UNDETERMINED: (Suggestion("observe", "Read its health endpoint's body and its log."),),
}

RULE = Rule(
    check=check,
    reads=frozenset(
        {
            *(_serving.READY, _serving.LOADED, _serving.CANARY, _serving.STEPS),
            *(_serving.GENERATED, _serving.PROMPTED, _serving.FINISHED),
            *(_ready.USED, _ready.OOMS, _ready.RETRIES),
        }
    ),
    events=frozenset({"kubernetes", "serving"}),
    hold=0.0,
    clear=120.0,
    thresholds={
        "loading": Threshold(300.0, "seconds", "without a sign of loading; weights move the GPU"),
        "lasting": Threshold(60.0, "seconds", "a reload or a missed probe is over by then"),
        "probed": Threshold(900.0, "seconds", "three restarts with a back-off lie within it"),
        "probes": Threshold(3.0, "probes", "Kubernetes' own failureThreshold"),
        "flaps": Threshold(2.0, "times", "not ready and ready again, which one restart is not"),
        "swing": Threshold(0.05, "ratio", "of the level; a loaded server's pool stands still"),
        "swing_span": Threshold(300.0, "seconds", "long enough for several requests"),
        "canaries": Threshold(2.0, "readings", "one failed request may be anything"),
    },
)
