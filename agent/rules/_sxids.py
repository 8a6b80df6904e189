"""Errors that an NVSwitch reported (SXid lines): the other end of the links."""

from __future__ import annotations

from collections.abc import Iterator

from gpudiag.agent.rules._lines import kernel_facts
from gpudiag.agent.rules.contract import (
    Diagnosis,
    Evidence,
    Healthy,
    Limits,
    Suggestion,
    Threshold,
    Verdict,
    subject,
)
from gpudiag.agent.window import Window
from gpudiag.probes import Event
from gpudiag.probes.kernel_lines import KernelFact

THRESHOLDS = {
    "fatal": Threshold(86400.0, "seconds", "a fatal switch error lasts until the fabric is reset"),
    "passing": Threshold(600.0, "seconds", "one that is not fatal was handled"),
}


def judged(window: Window, limits: Limits) -> Iterator[Verdict]:
    """Judge every switch of which an error was told, by its bus address."""
    told: dict[str, list[tuple[Event, KernelFact]]] = {}
    loaded = -float("inf")
    kinds, needles = ("sxid", "driver_load"), ("SXid (", "NVRM: loading")
    for event, fact in kernel_facts(window, limits["fatal"], kinds, needles):
        if fact.kind == "driver_load":
            loaded = event.time
        elif fact.pci:
            told.setdefault(fact.pci, []).append((event, fact))
    for pci, errors in told.items():
        active = [
            (event, fact)
            for event, fact in errors
            if event.time > loaded and window.now - event.time < limits[_keeps(fact)]
        ]
        fatal = [error for error in active if error[1].severity == "fatal"]
        if active:
            yield _diagnosis(pci, *(fatal or active)[-1], len(active))
        else:
            yield Healthy(subject(device=pci))


def _keeps(fact: KernelFact) -> str:
    return "fatal" if fact.severity == "fatal" else "passing"


def _diagnosis(pci: str, event: Event, fact: KernelFact, times: int) -> Diagnosis:
    fatal = fact.severity == "fatal"
    again = f" and {times - 1} more" if times > 1 else ""
    return Diagnosis(
        subject=subject(device=pci),
        cause="nvlink-errors",
        confidence=0.9 if fatal else 0.7,
        summary=f"The NVSwitch at {pci} reported SXid {fact.code}{again}: {fact.detail}.",
        evidence=(Evidence("kmsg", event.line),),
        actions=_FATAL if fatal else (),
        severity="critical" if fatal else "info",
        since=event.time,
    )


_FATAL = (
    Suggestion("drain", "Drain the node, then reset all GPUs and the switches together: reboot."),
    Suggestion("notify", "If the same switch and link return, have the board inspected."),
)
