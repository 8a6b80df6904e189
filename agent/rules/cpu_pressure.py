"""Tasks wait for a CPU: the host has fewer free CPUs than runnable work."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gpudiag.agent.rules._lines import Where, at, nodes
from gpudiag.agent.rules._spans import above_since, mostly_above
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
from gpudiag.agent.window import Series, Window

PRESSURE = "gpudiag_host_pressure_ratio"
USED = "gpudiag_host_cpu_utilization_ratio"
LOAD = "gpudiag_host_load1"
SWITCHES = "gpudiag_process_context_switches_total"
LOOK_BACK = 1800.0


def check(window: Window, limits: Limits) -> Iterator[Verdict]:
    """Judge every node that reports CPU pressure, or at least CPU use."""
    for where in nodes(window.latest(PRESSURE, resource="cpu") + window.latest(USED)):
        pressure = window.value(PRESSURE, resource="cpu", kind="some", **where)
        used = window.value(USED, **where)
        if pressure is not None:
            yield _by_pressure(window, limits, where, pressure)
        elif used is not None:
            yield _by_use(window, limits, where, used)


def _by_pressure(window: Window, limits: Limits, where: Where, newest: float) -> Verdict:
    if newest < limits["pressure_with_switches"] / 2.0:
        return Healthy(at(where))
    series = window.series(PRESSURE, LOOK_BACK, resource="cpu", kind="some", **where)[0]
    lasting = limits["lasting"]
    limit = limits["pressure"]
    if not mostly_above(series, lasting, limit):
        limit = limits["pressure_with_switches"]
        crowded = mostly_above(series, lasting, limit) and _switching(window, limits, where)
        if not crowded:
            return Healthy(at(where))
    return _diagnosis(window, limits, where, series, limit)


def _by_use(window: Window, limits: Limits, where: Where, used: float) -> Verdict:
    """Without PSI: full CPUs alone are good use of them, unless processes are pushed off."""
    if used < limits["full"]:
        return Healthy(at(where))
    series = window.series(USED, LOOK_BACK, **where)[0]
    if not mostly_above(series, limits["lasting"], limits["full"]):
        return Healthy(at(where))
    if _switching(window, limits, where):
        return _diagnosis(window, limits, where, series, limits["full"])
    return Unknown(at(where), (f"{PRESSURE}{{resource=cpu}} (boot the kernel with psi=1)",))


def _switching(window: Window, limits: Limits, where: Where) -> bool:
    return _worst_switch_rate(window, limits, where) >= limits["switches"]


def _worst_switch_rate(window: Window, limits: Limits, where: Where) -> float:
    """Involuntary context switches a second of the process that suffers most."""
    spans = window.series(SWITCHES, limits["lasting"] * 2.0, kind="involuntary", **where)
    rates = [
        float((s.values[-1] - s.values[0]) / (s.times[-1] - s.times[0]))
        for s in spans
        if len(s.times) > 1
    ]
    return max(rates, default=0.0)


def _diagnosis(
    window: Window, limits: Limits, where: Where, series: Series, limit: float
) -> Diagnosis:
    by_use = "resource" not in series.labels
    recent = series.values[series.times >= window.now - limits["lasting"]]
    mean = float(np.mean(recent)) if len(recent) else float(series.values[-1])
    since = above_since(series, limit)
    load, used = window.value(LOAD, **where), window.value(USED, **where)
    rate = _worst_switch_rate(window, limits, where)
    evidence = [Evidence(USED if by_use else PRESSURE, round(mean, 3), "ratio", f"< {limit:g}")]
    if load is not None:
        evidence.append(Evidence(LOAD, load, "tasks", "at most the number of CPUs"))
    if used is not None and not by_use:
        evidence.append(Evidence(USED, used, "ratio"))
    if rate:
        evidence.append(Evidence(SWITCHES, round(rate), "per second", f"< {limits['switches']:g}"))
    waited = (
        f"CPUs are {mean:.0%} busy and processes are pushed off them {rate:.0f} times a second"
        if by_use
        else f"some task waited for a CPU {mean:.0%} of the time"
    )
    corroborated = rate >= limits["switches"] or (used or 0.0) >= limits["full"]
    return Diagnosis(
        at(where),
        "cpu-pressure",
        0.6 if by_use else 0.9 if corroborated else 0.8,
        f"The host is short of CPU: for {window.now - since:.0f} s {waited}"
        + (f" (load {load:.0f})." if load is not None else "."),
        tuple(evidence),
        rivals=(_MEMORY_RIVAL,),
        actions=_ACTIONS,
        since=since,
    )


_MEMORY_RIVAL = Rival(
    "host-memory-pressure", "this is the pressure on CPUs; waits for memory are counted apart"
)
_ACTIONS = (
    Suggestion("notify", "Find who takes the CPUs (`top -H`, `pidstat -w 1`) and tell its owner."),
    Suggestion(
        "degrade",
        "Lower the number of data-loader workers or threads (OMP_NUM_THREADS), or move the other"
        " job away; raise the pod's CPU request if a quota throttles it.",
    ),
)

RULE = Rule(
    check=check,
    reads=frozenset({PRESSURE, USED, SWITCHES}),
    thresholds={
        "pressure": Threshold(
            0.35, "ratio", "a third of the time some task waits; busy loaders alone stay below 0.3"
        ),
        "pressure_with_switches": Threshold(
            0.2, "ratio", "half as much, where a process is seen to be pushed off its CPU"
        ),
        "switches": Threshold(
            500.0, "per second", "a worker alone on its core is preempted a few times a second"
        ),
        "full": Threshold(0.95, "ratio", "no idle CPU left to run a waiting task"),
        "lasting": Threshold(
            90.0, "seconds", "a compile or a checkpoint may crowd the CPUs for a minute"
        ),
    },
)
