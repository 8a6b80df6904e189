"""Sees suspicions pass by, has one process at a time looked at, and tells what was found."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from gpudiag.agent.escalation.budget import Budget
from gpudiag.agent.escalation.capture import Capture, Snapshots
from gpudiag.agent.escalation.found import Found
from gpudiag.agent.escalation.suspicion import Suspect, suspects
from gpudiag.agent.findings.finding import Finding
from gpudiag.agent.window import Window
from gpudiag.probes import Event, Sample, labels
from gpudiag.probes.errors import GpudiagError

log = logging.getLogger(__name__)

CAPTURED = "memory_capture"
"""The type of the event that carries what was found; `rules.memory_slow_growth` reads it."""

SHOWN_SECONDS = 7200.0

Put = Callable[[list[Sample], list[Event]], None]


class Escalator:
    """An observer of the writer, with one thread of its own for what takes minutes."""

    def __init__(
        self,
        capture: Capture,
        snapshots: Snapshots,
        budget: Budget,
        put: Put,
        now: Callable[[], float],
    ) -> None:
        self._capture = capture
        self._snapshots = snapshots
        self._budget = budget
        self._put = put
        self._now = now
        self._waiting: queue.Queue[Suspect] = queue.Queue(16)
        self._taken = 0
        self._seconds = 0.0
        self._found: dict[Suspect, tuple[float, Found]] = {}
        threading.Thread(target=self._run, name="escalation", daemon=True).start()

    def observe(self, _samples: Sequence[Sample], events: Sequence[Event]) -> None:
        """Snapshots that ranks announce."""
        for event in events:
            who = _who(event)
            if event.source == "torch" and event.type == "snapshot" and who:
                self._snapshots.announced(who, Path(event.line))

    def on_findings(self, now: float, changed: Sequence[Finding], _window: Window) -> None:
        """A suspicion takes its job's turn at once, so that a restart does not take it twice."""
        for who in suspects(changed):
            if self._budget.take(who.job, now):
                self.queue(who)

    def look(self, job: str, rank: int) -> bool:
        """A person asks, who is not bound to the budget."""
        return self.queue(Suspect(job, rank))

    def captures(self) -> list[dict[str, Any]]:
        """The newest look at each rank: `job`, `rank`, `at` (epoch seconds), and what it found."""
        return [
            {"job": who.job, "rank": who.rank, "at": at, **msgspec.to_builtins(found)}
            for who, (at, found) in list(self._found.items())
        ]

    def queue(self, who: Suspect) -> bool:
        """Have a rank looked at, after those that wait already; False where too many do."""
        try:
            self._waiting.put_nowait(who)
        except queue.Full:
            return False
        return True

    def samples(self, now: float) -> list[Sample]:
        """What looking has cost so far, and the call sites that were found lately."""
        told = [
            Sample("gpudiag_memory_captures_total", (), now, float(self._taken)),
            Sample("gpudiag_memory_capture_seconds_total", (), now, self._seconds),
        ]
        for who, (at, found) in list(self._found.items()):
            if found.site and now - at < SHOWN_SECONDS:
                of = labels(job=who.job, rank=str(who.rank), site=found.site)
                told.append(Sample("gpudiag_leak_site_bytes", of, now, found.held))
                told.append(Sample("gpudiag_leak_site_bytes_per_step", of, now, found.per_step))
        return told

    def _run(self) -> None:
        while True:
            who = self._waiting.get()
            try:
                self._look(who)
            except Exception:
                log.exception("the closer look at rank %s of %s broke off", who.rank, who.job)

    def _look(self, who: Suspect) -> None:
        began = time.monotonic()
        try:
            found = self._capture.look(who)
        # What a rank answers may be of any shape.
        except (GpudiagError, msgspec.ValidationError) as error:
            found = Found(f"nothing was captured: {error}")
        self._taken += 1
        self._seconds += time.monotonic() - began
        log.info("rank %s of %s, looked at closely: %s", who.rank, who.job, found.summary)
        self._tell(who, found)

    def _tell(self, who: Suspect, found: Found) -> None:
        now = self._now()
        self._found[who] = now, found
        fields = {
            "job": who.job,
            "rank": str(who.rank),
            "cause": found.cause,
            "site": found.site,
            "per_step": str(found.per_step),
            "confidence": str(found.confidence),
        }
        self._put([], [Event(now, "agent", found.summary, CAPTURED, fields)])


def _who(event: Event) -> Suspect | None:
    job, rank = event.fields.get("job", ""), event.fields.get("rank", "")
    return Suspect(job, int(rank)) if job and rank.isdigit() else None
