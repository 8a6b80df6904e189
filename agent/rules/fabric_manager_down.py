"""The GPU is not registered with the NVLink fabric: jobs on several GPUs cannot start."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpudiag.agent.rules._lines import at, event_node, kernel_facts, lines, nodes
from gpudiag.agent.rules._spans import held_since
from gpudiag.agent.rules.contract import (
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
from gpudiag.agent.window import Point, Window
from gpudiag.probes import Event

STATE = "gpudiag_gpu_fabric_state"
UPTIME = "gpudiag_host_uptime_seconds"
NOT_SUPPORTED, NOT_STARTED, IN_PROGRESS, COMPLETED = 0.0, 1.0, 2.0, 3.0
_NAMES = {NOT_STARTED: "not started", IN_PROGRESS: "in progress"}
LOOK_BACK = 7200.0
_MANAGER = re.compile(r"nv-?fabric-?manager|nv-fabricmana", re.IGNORECASE)
_NOT_READY = "system not yet initialized"


def check(window: Window, limits: Limits) -> Iterator[Verdict]:
    """Judge every GPU that has a fabric state; without one, what processes and logs say."""
    said = _said(window, limits)
    points = [p for p in window.latest(STATE) if p.value != NOT_SUPPORTED]
    if said is None:
        yield from (Healthy(at(where)) for where in nodes(points))
    elif all(p.value == COMPLETED for p in points):
        yield _by_words(said, measured=bool(points))
    waiting = sum(p.value < COMPLETED for p in points), len(points)
    for point in points:
        if point.value >= COMPLETED:
            yield Healthy(_gpu(point))
        else:
            yield from _waiting(window, limits, point, said, waiting)


def _gpu(point: Point) -> Subject:
    keys = ("uuid", "node")
    return subject(**{key: point.labels[key] for key in keys if key in point.labels})


def _waiting(
    window: Window, limits: Limits, point: Point, said: Event | None, waiting: tuple[int, int]
) -> Iterator[Diagnosis]:
    series = window.series(STATE, LOOK_BACK, **point.labels)[0]
    since = held_since(series, series.values < COMPLETED)
    patience = _patience(window, limits, point)
    if since == series.times[0]:
        # It was never seen completed, so the recording may have begun with the boot.
        patience = max(patience, limits["in_progress"])
    if since is None or window.now - since < patience:
        return
    name = _NAMES.get(point.value, "unknown")
    lasted = window.now - since
    evidence = [Evidence(STATE, point.value, "", "3 (completed)", {"state": name, **point.labels})]
    if said:
        evidence.append(Evidence(said.source, said.line))
    yield Diagnosis(
        _gpu(point),
        "fabric-manager-down",
        0.95 if said or waiting[0] == waiting[1] else 0.85,
        f"The GPU's registration with the NVLink fabric has been '{name}' for"
        f" {lasted:.0f} s ({waiting[0]} of {waiting[1]} GPUs): CUDA refuses to start on it"
        f" ('{_NOT_READY}'), although temperature, memory and clocks look healthy.",
        tuple(evidence),
        rivals=(
            Rival("nvlink-errors", "the links are not set up at all, rather than failing in use"),
        ),
        missing=() if said else ("the fabric manager's own log: did it stop, or refuse the GPU?",),
        actions=_ACTIONS,
        since=since,
    )


def _patience(window: Window, limits: Limits, point: Point) -> float:
    """Seconds this state is normal: the fabric comes up by itself after a boot or a reload."""
    node = {"node": point.labels["node"]} if "node" in point.labels else {}
    uptime = window.value(UPTIME, **node)
    fresh = uptime is not None and uptime < limits["boot"]
    loads = kernel_facts(window, limits["boot"], ("driver_load",), ("NVRM: loading",))
    if fresh or loads:
        return limits["boot"]
    return limits["not_started" if point.value == NOT_STARTED else "in_progress"]


def _said(window: Window, limits: Limits) -> Event | None:
    """The manager's death or CUDA's refusal, unless manager or driver were restarted since."""
    recent = limits["recent"]
    manager = [e for e in window.events(recent, source="process") if _MANAGER.search(e.line)]
    told = manager[-1] if manager and not manager[-1].line.startswith("start") else None
    told = told or next(lines(window, recent, _NOT_READY), None)
    told = told or next((e for e, _ in kernel_facts(window, recent, ("fabric",), ("abric",))), None)
    if told is None or window.now - told.time < limits["restart"]:
        return None
    if any(e.time > told.time for e in manager):
        return None
    # Who unloads the driver has stopped the manager on purpose.
    kinds, needles = ("driver_load", "driver_unload"), ("NVRM: loading", "Unloading")
    reloads = kernel_facts(window, recent, kinds, needles)
    return None if any(e.time > told.time - limits["boot"] for e, _ in reloads) else told


def _by_words(said: Event, *, measured: bool) -> Diagnosis:
    """Registered GPUs keep running without the manager, so this alone is less than sure."""
    gone = bool(_MANAGER.search(said.line))
    return Diagnosis(
        subject(**event_node(said)),
        "fabric-manager-down",
        0.8 if gone else 0.7,
        ("The fabric manager ended and was not started again: " if gone else "")
        + "no new job on several GPUs of this node can set up NVLink.",
        (Evidence(said.source, said.line),),
        rivals=(
            Rival("driver-mismatch", "the driver answers, and its versions were not questioned"),
        ),
        missing=() if measured else (f"{STATE}: is the fabric registration complete?",),
        actions=_ACTIONS,
        severity="warning" if measured else "critical",
        since=said.time,
    )


_ACTIONS = (
    Suggestion(
        "notify",
        "See `systemctl status nvidia-fabricmanager` and /var/log/fabricmanager.log; its version"
        " must be exactly the driver's.",
    ),
    Suggestion("drain", "Place no job on this node until the state is 'completed' on every GPU."),
    Suggestion(
        "restart",
        "`systemctl restart nvidia-fabricmanager` when no job runs; if a GPU stays out, reset all"
        " GPUs of the node together or reboot.",
    ),
)

RULE = Rule(
    check=check,
    reads=frozenset({STATE}),
    events=frozenset({"process"}),
    thresholds={
        "not_started": Threshold(60.0, "seconds", "a manager being restarted is back within one"),
        "in_progress": Threshold(120.0, "seconds", "routing 8 GPUs takes well under a minute"),
        "boot": Threshold(300.0, "seconds", "switch training and manager start after a boot"),
        "restart": Threshold(45.0, "seconds", "systemd starts a failed manager again by then"),
        "recent": Threshold(3600.0, "seconds", "how long a line speaks of the present"),
    },
)
