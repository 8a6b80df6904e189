"""A driver call hangs: the GPUs of this node cannot be read until it returns."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpudiag.agent.rules._lines import Where, at, event_node, kernel_facts, lines, nodes
from gpudiag.agent.rules._spans import held_since
from gpudiag.agent.rules.contract import (
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

WEDGED = "gpudiag_nvml_wedged"
SUCCESS = "gpudiag_probe_success"
LAST = "gpudiag_probe_last_success_timestamp_seconds"
DURATION = "gpudiag_probe_duration_seconds"
CODE = "gpudiag_nvml_return_code"
LOST = "gpudiag_gpu_lost"
HOST = "gpudiag_host_load1"
GPU_SERIES = (
    "gpudiag_gpu_utilization_ratio",
    "gpudiag_gpu_memory_used_bytes",
    "gpudiag_gpu_temperature_celsius",
    "gpudiag_gpu_power_watts",
    "gpudiag_gpu_clock_hertz",
    "gpudiag_gpu_info",
)
TIMEOUT = 10
UNKNOWN_ERROR = 999
LOOK_BACK = 1800.0
_DRIVER_TASK = re.compile(r"nvidia|^nv_|nvisel|dcgm|gpudiag", re.IGNORECASE)
_NO_NVML = "Failed to initialize NVML: "
OWN_TROUBLE = (
    "the agent's own access to the GPUs: NVML says Unknown Error in its container, as after a"
    " cgroup rewrite (systemctl daemon-reload); restart the agent's container, the GPUs are not at"
    " fault"
)


def check(window: Window, limits: Limits) -> Iterator[Verdict]:
    """Judge every node whose driver is read, and a node where only the kernel speaks of a hang."""
    points = window.latest(WEDGED)
    for metric in (SUCCESS, LAST, DURATION):
        points += window.latest(metric, probe="nvml")
    places = nodes(points)
    if not places:
        yield from _unprobed(window, limits)
    for where in places:
        verdict = _judge(window, limits, where)
        if verdict is not None:
            yield verdict


def _judge(window: Window, limits: Limits, where: Where) -> Verdict | None:
    wedged = window.value(WEDGED, **where)
    if wedged:
        series = window.series(WEDGED, LOOK_BACK, **where)[0]
        since = held_since(series, series.values > 0.0)
        evidence = (Evidence(WEDGED, 1.0, "", "0"),)
        return _diagnosis(window, where, 0.95, since or window.now, evidence)
    frozen = _frozen_since(window, where, limits["silent"])
    if _read_after(window, where, -1.0 if frozen is None else frozen + limits["silent"] / 2.0):
        return Healthy(at(where))
    if wedged == 0.0 or not _silent(window, limits, where, frozen):
        return None
    if _shut_out(window, limits, where):
        return Unknown(at(where), (OWN_TROUBLE,))
    if _answered(window, limits, where):
        return None
    return _inferred(window, where, frozen)


def _read_after(window: Window, where: Where, moment: float) -> bool:
    """Whether any GPU was read after that moment: then the driver answers."""
    points = (p for metric in GPU_SERIES for p in window.latest(metric, **where))
    return any(p.time > moment for p in points)


def _frozen_since(window: Window, where: Where, silent: float) -> float | None:
    """Since when the probe's last success has stood still, if for `silent` seconds."""
    for series in window.series(LAST, LOOK_BACK, probe="nvml", **where):
        since = held_since(series, series.values == series.values[-1])
        if since is not None and len(series.times) > 2 and window.now - since >= silent:
            return since
    return None


def _silent(window: Window, limits: Limits, where: Where, frozen: float | None) -> bool:
    """Whether the probe has brought nothing for long enough to call it a hang."""
    success = window.series(SUCCESS, LOOK_BACK, probe="nvml", **where)
    if not success:
        took = window.value(DURATION, probe="nvml", **where) or 0.0
        return frozen is not None or took >= limits["silent"]
    since = held_since(success[0], success[0].values == 0.0)
    # A probe that never worked may have no driver to read; that is no hang.
    worked = bool(success[0].values.any()) or any(window.seen(m, **where) for m in GPU_SERIES)
    return since is not None and worked and window.now - since >= limits["silent"]


def _shut_out(window: Window, limits: Limits, where: Where) -> bool:
    """Whether the agent's own container lost its access to the devices."""
    said = lines(window, limits["recent"], _NO_NVML)
    return window.value(CODE, **where) == UNKNOWN_ERROR or any(
        "Unknown Error" in event.line for event in said
    )


def _answered(window: Window, limits: Limits, where: Where) -> bool:
    """Whether the driver said something, or is being reloaded: then no call hangs."""
    if window.value(CODE, **where) not in (None, 0.0, float(TIMEOUT)):
        return True
    if any(p.value for p in window.latest(LOST, **where)):
        return True
    reload = ("driver_load", "driver_unload", "api_mismatch")
    needles = ("NVRM: loading", "Unloading", "API mismatch")
    recent = limits["recent"]
    return bool(kernel_facts(window, recent, reload, needles)) or any(
        lines(window, recent, _NO_NVML)
    )


def _hung_task(window: Window, seconds: float) -> tuple[Where, float, Evidence] | None:
    for event, fact in kernel_facts(window, seconds, ("hung_task",), ("blocked for more than",)):
        if _DRIVER_TASK.search(fact.name):
            return event_node(event), event.time, Evidence("kmsg", event.line, "", "no hung task")
    return None


def _unprobed(window: Window, limits: Limits) -> Iterator[Verdict]:
    """Nothing tells how the driver's probe fares: the kernel, or the mere end of GPU series."""
    hung = _hung_task(window, limits["recent"])
    if hung is not None:
        where, since, evidence = hung
        if _read_after(window, where, since):
            yield Healthy(at(where))
        else:
            yield _diagnosis(window, where, 0.75, since, (evidence,))
        return
    for where in nodes(window.latest(HOST)):
        ended = any(window.seen(metric, **where) for metric in GPU_SERIES[:-1])
        if ended and not _read_after(window, where, -1.0):
            yield Unknown(at(where), (f"{SUCCESS}{{probe=nvml}}: all GPU series ended",))


def _inferred(window: Window, where: Where, frozen: float | None) -> Diagnosis:
    """A silence that nothing else explains: surer the more of it the agent has measured."""
    success = window.series(SUCCESS, LOOK_BACK, probe="nvml", **where)
    failing = held_since(success[0], success[0].values == 0.0) if success else None
    since = min(t for t in (frozen, failing, window.now) if t is not None)
    evidence = [Evidence(SUCCESS, 0.0, "", "1", {"probe": "nvml"})] if success else []
    if frozen is not None:
        age = window.now - frozen
        evidence.append(Evidence(LAST, age, "seconds ago", "at every read", {"probe": "nvml"}))
    took = window.value(DURATION, probe="nvml", **where) or 0.0
    if took >= TIMEOUT:
        evidence.append(Evidence(DURATION, took, "seconds", "< 1", {"probe": "nvml"}))
    hung = _hung_task(window, LOOK_BACK)
    if hung is not None:
        evidence.append(hung[2])
    sure = 0.65 + 0.1 * (frozen is not None) + 0.1 * (took >= TIMEOUT) + 0.1 * (hung is not None)
    return _diagnosis(window, where, sure, since, tuple(evidence))


def _diagnosis(
    window: Window, where: Where, confidence: float, since: float, evidence: tuple[Evidence, ...]
) -> Diagnosis:
    lasted = f" for {window.now - since:.0f} s" if since < window.now else ""
    return Diagnosis(
        at(where),
        "nvml-wedged",
        confidence,
        f"A call into the NVIDIA driver has not returned{lasted}: no GPU of this node can be read,"
        " what their series say is absent, not zero. Host readings go on.",
        evidence,
        rivals=(
            Rival("gpu-lost", "a lost GPU makes the driver answer with an error at once"),
            Rival("driver-mismatch", "a wrong library is refused at once (NVML code 18)"),
        ),
        missing=() if confidence > 0.7 else (f"{CODE}: did the call fail, or not return?",),
        actions=_ACTIONS,
        since=since,
    )


_ACTIONS = (
    Suggestion(
        "notify",
        "Look for tasks in D state (`ps -eo pid,stat,wchan:30,comm | grep ' D'`) and for an XID"
        " just before (`dmesg -T | grep -i -e xid -e 'blocked for more than'`). Start no further"
        " nvidia-smi: each hangs as well.",
    ),
    Suggestion("drain", "Take no new work on this node; let what still runs write a checkpoint."),
    Suggestion("restart", "Reboot the node: a task in D state in the driver cannot be killed."),
)

RULE = Rule(
    check=check,
    reads=frozenset({WEDGED, SUCCESS, LAST}),
    events=frozenset({"kmsg"}),
    thresholds={
        "silent": Threshold(30.0, "seconds", "three watchdog polls; the slowest good read is 5 s"),
        "recent": Threshold(600.0, "seconds", "how long a line speaks of the present silence"),
    },
)
