"""The NVML library and the kernel driver differ: new processes cannot use the GPUs."""

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
    Verdict,
)
from gpudiag.agent.window import Window
from gpudiag.probes import Event
from gpudiag.probes.catalog import Severity

INFO = "gpudiag_driver_info"
CODE = "gpudiag_nvml_return_code"
SUCCESS = "gpudiag_probe_success"
MISMATCH_CODE = 18
LOOK_BACK = 1800.0
# As nvidia-smi words NVML's code 18, and as its Python binding does.
_PHRASES = ("river/library version mismatch", "NVML/RM version mismatch")
_VERSION = re.compile(r"\d{3}\.\d+(?:\.\d+)?")


def check(window: Window, limits: Limits) -> Iterator[Verdict]:
    """Judge every node by its versions, by NVML's answer and by what kernel and logs say."""
    said = _said(window, limits)
    places = nodes(window.latest(INFO) + window.latest(CODE) + window.latest(SUCCESS, probe="nvml"))
    if said and not places:
        yield _diagnosis(window, event_node(said), said.time, said, ())
    for where in places:
        mine = said if said and (len(places) == 1 or event_node(said) == where) else None
        yield _judge(window, limits, where, mine)


def _judge(window: Window, limits: Limits, where: Where, said: Event | None) -> Verdict:
    since, evidence = _measured(window, where)
    lasting = since is not None and window.now - since >= limits["lasting"]
    if said is None and not lasting:
        return Healthy(at(where))
    starts = [t for t in (since, said.time if said else None) if t is not None]
    return _diagnosis(window, where, min(starts), said, evidence)


def _measured(window: Window, where: Where) -> tuple[float | None, tuple[Evidence, ...]]:
    """Since when the agent itself sees the mismatch, and by what."""
    since, evidence = None, []
    for series in window.series(CODE, LOOK_BACK, **where):
        since = held_since(series, series.values == MISMATCH_CODE)
        if since is not None:
            evidence.append(Evidence(CODE, float(MISMATCH_CODE), "", "0"))
    for series in window.series(INFO, LOOK_BACK, **where):
        library, module = series.labels.get("nvml", ""), series.labels.get("kernel_module", "")
        if library and module and library != module:
            since = min(float(series.times[0]), window.now if since is None else since)
            text = f"library {library}, kernel module {module}"
            evidence.append(Evidence(INFO, text, "", "the same version"))
    return since, tuple(evidence)


def _said(window: Window, limits: Limits) -> Event | None:
    """The first line that reports the mismatch, unless the driver was loaded anew since."""
    recent = limits["recent"]
    kernel = kernel_facts(window, recent, ("api_mismatch",), ("API mismatch",))
    told = [e for e, _ in kernel] + [
        event for phrase in _PHRASES for event in lines(window, recent, phrase)
    ]
    loads = kernel_facts(window, recent, ("driver_load",), ("NVRM: loading",)) if told else []
    loaded = loads[-1][0].time if loads else -1.0
    return min((e for e in told if e.time > loaded), key=lambda e: e.time, default=None)


def _diagnosis(
    window: Window, where: Where, since: float, said: Event | None, evidence: tuple[Evidence, ...]
) -> Diagnosis:
    if said:
        evidence = (*evidence, Evidence(said.source, said.line, "", "no mismatch"))
    own = bool(evidence) and any(e.name in (CODE, INFO) for e in evidence)
    reading = window.value(SUCCESS, probe="nvml", **where) == 1.0
    # The agent reads the driver well: the wrong library is in somebody else's container.
    severity: Severity = "warning" if reading and not own else "critical"
    return Diagnosis(
        at(where),
        "driver-mismatch",
        0.97 if own else 0.7 if reading else 0.9,
        f"{_versions(evidence)} Processes that run go on; every new one fails until the node"
        " is rebooted or the driver is loaded anew."
        if severity == "critical"
        else f"{_versions(evidence)} The agent itself reads the GPUs well, so one container or"
        " process carries the wrong driver libraries.",
        evidence,
        rivals=(
            Rival("nvml-wedged", "the driver answers at once, with a refusal"),
            Rival("gpu-lost", "all GPUs of the node are refused alike, none is named"),
        ),
        actions=_ACTIONS,
        severity=severity,
        since=since,
    )


def _versions(evidence: tuple[Evidence, ...]) -> str:
    for fact in evidence:
        found = _VERSION.findall(str(fact.value))
        if len(set(found)) >= 2:
            return f"The driver libraries are {found[0]}, the loaded kernel module is {found[1]}."
    return "The driver libraries and the loaded kernel module are of different versions."


_ACTIONS = (
    Suggestion(
        "notify",
        "Compare `cat /proc/driver/nvidia/version` with `nvidia-smi --version`; an unattended"
        " package upgrade is the usual cause (`grep nvidia /var/log/dpkg.log`).",
    ),
    Suggestion("drain", "Start nothing new here; let running jobs finish or write a checkpoint."),
    Suggestion("restart", "Reboot the node, or unload and load the nvidia modules once all left."),
)

RULE = Rule(
    check=check,
    reads=frozenset({CODE, INFO}),
    events=frozenset({"kmsg", "log", "kubernetes"}),
    thresholds={
        "lasting": Threshold(
            20.0, "seconds", "a driver being reloaded differs from its library for some seconds"
        ),
        "recent": Threshold(1800.0, "seconds", "how long a line speaks of the present"),
    },
)
