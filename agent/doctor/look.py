"""Runs the probes for a few seconds and the rules over what they gave, with a deadline."""

from __future__ import annotations

import contextlib
import queue
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gpudiag.agent.clock import Clock
from gpudiag.agent.engine import Engine
from gpudiag.agent.findings.finding import Finding
from gpudiag.agent.rules.contract import Unknown
from gpudiag.agent.scheduler import ProbeStatus, Scheduler
from gpudiag.agent.window import Window
from gpudiag.probes import Event, Probe, Sample

WAIT_SECONDS = 0.2

Observe = Callable[[Sequence[Sample], Sequence[Event]], None]

# The driver is read by a child that first has to start: its probe alone may answer with nothing.
_PROOF = {"nvml": ("gpudiag_nvml_up", "gpudiag_nvml_return_code", "gpudiag_nvml_wedged")}


@dataclass(frozen=True, slots=True)
class Look:
    """What was found in `seconds`: the window as the rules saw it, findings pending and firing.

    `statuses` are the probes by name, `silent` those that had not answered by the deadline,
    `events` everything that was told, also what the window holds no more.
    """

    seconds: float
    window: Window
    findings: Sequence[Finding]
    unknown: dict[str, list[Unknown]]
    events: Sequence[Event]
    statuses: dict[str, ProbeStatus]
    silent: frozenset[str]

    def value(self, metric: str, **match: str) -> float | None:
        """The newest value of the one series that matches, None where there is none."""
        return self.window.value(metric, **match)

    def of(self, *symptoms: str) -> list[Finding]:
        """The findings of these symptoms."""
        return [finding for finding in self.findings if finding.symptom in symptoms]

    def about(self, key: str, value: str) -> list[Finding]:
        """The findings about one GPU (`uuid`), mount point, device, ..."""
        return [finding for finding in self.findings if dict(finding.subject).get(key) == value]


def look(
    probes: Sequence[Probe],
    engine: Engine,
    clock: Clock,
    *,
    observe: Observe,
    seconds: float,
    deadline: float,
) -> Look:
    """Read for `seconds`, longer up to `deadline` while a probe has not answered.

    `observe` sees each batch, as the agent's inventory wants to.
    """
    scheduler = Scheduler(probes, clock)
    events: list[Event] = []

    def take(samples: list[Sample], told: list[Event]) -> None:
        observe(samples, told)
        engine.ingest(samples, told)
        events.extend(told)

    began = clock.monotonic()
    scheduler.start()
    try:
        while not _done(clock.monotonic() - began, seconds, deadline, scheduler, engine):
            with contextlib.suppress(queue.Empty):
                take(*scheduler.batches.get(timeout=WAIT_SECONDS))
            engine.window.now = clock.now()
        engine.evaluate(clock.now())
        took, statuses = clock.monotonic() - began, scheduler.statuses()
    finally:
        scheduler.stop()
    return Look(
        took,
        engine.window,
        [finding for finding in engine.book.findings() if finding.state != "resolved"],
        engine.book.unknown(),
        events,
        {status.name: status for status in statuses},
        frozenset(status.name for status in statuses if not _answered(status, engine.window)),
    )


def _done(
    spent: float, seconds: float, deadline: float, scheduler: Scheduler, engine: Engine
) -> bool:
    if spent >= deadline:
        return True
    return spent >= seconds and all(_answered(s, engine.window) for s in scheduler.statuses())


def _answered(status: ProbeStatus, window: Window) -> bool:
    if not (status.available and status.ok):
        return True
    proof = _PROOF.get(status.name, ())
    return status.last_success is not None and (
        not proof or any(window.latest(metric) for metric in proof)
    )
