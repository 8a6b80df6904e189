"""A thread per probe, each at its own cadence; the one place where a probe's errors are caught."""

from __future__ import annotations

import logging
import math
import queue
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from gpudiag.agent.clock import Clock
from gpudiag.probes import Event, Labels, Probe, Record, Sample, labels
from gpudiag.probes.errors import Partly, Unavailable

log = logging.getLogger(__name__)

QUEUE_BATCHES = 1000
UNAVAILABLE_RETRY = 60.0
LATE_CADENCES = 5.0
LATE_SECONDS = 5.0
QUIET_SECONDS = 1.0
"""Reads that bring nothing new are told of once in so long: each batch costs every thread."""

Batch = tuple[list[Sample], list[Event]]


@dataclass(frozen=True, slots=True)
class ProbeStatus:
    """How one probe fares.

    `available` is False where its source is not on this machine, which is no failure; `detail`
    says why in either case. `last_success` is epoch seconds or None, `duration` seconds.
    """

    name: str
    ok: bool = True
    detail: str = ""
    last_success: float | None = None
    duration: float = 0.0
    available: bool = True


class Scheduler:
    """Reads the probes into one queue of batches; statuses can be read from any thread."""

    def __init__(self, probes: Sequence[Probe], clock: Clock) -> None:
        self.batches: queue.Queue[Batch] = queue.Queue(QUEUE_BATCHES)
        self.dropped = 0
        self.stretch = 1.0
        self._clock = clock
        self._stop = threading.Event()
        self._workers = [_Worker(probe, self, clock) for probe in probes]

    def start(self) -> None:
        """Start the threads. They are daemons: one stuck in the kernel must not hold the exit."""
        for worker in self._workers:
            worker.thread.start()

    def stop(self) -> None:
        """Ask the threads to end and close the probes; returns at once."""
        self._stop.set()
        for worker in self._workers:
            worker.probe.close()

    def statuses(self) -> list[ProbeStatus]:
        """The probes as they stand, a read that does not return among them."""
        now = self._clock.monotonic()
        return [worker.status_at(now) for worker in self._workers]

    def wait(self, seconds: float) -> bool:
        """Sleep; True when the agent stops meanwhile."""
        return self._stop.wait(seconds)

    def put(self, samples: list[Sample], events: list[Event]) -> None:
        """Hand a batch to the writer; when it lags a thousand behind, drop it and count."""
        try:
            self.batches.put_nowait((samples, events))
        except queue.Full:
            self.dropped += len(samples) + len(events)


class _Worker:
    def __init__(self, probe: Probe, scheduler: Scheduler, clock: Clock) -> None:
        self.probe = probe
        self.thread = threading.Thread(target=self._run, name=f"probe-{probe.name}", daemon=True)
        self._scheduler = scheduler
        self._clock = clock
        self._status = ProbeStatus(probe.name)
        self._began: float | None = None
        self._alive: set[tuple[str, Labels]] = set()
        self._told_at = -math.inf
        self._label = labels(probe=probe.name)

    def status_at(self, now: float) -> ProbeStatus:
        began, limit = self._began, max(LATE_SECONDS, LATE_CADENCES * self.probe.cadence)
        if began is not None and now - began > limit:
            detail = f"a read has not returned for {now - began:.0f} s"
            return replace(self._status, ok=False, detail=detail)
        return self._status

    def _run(self) -> None:
        due = self._clock.monotonic()
        while not self._scheduler.wait(max(0.0, due - self._clock.monotonic())):
            self._began = self._clock.monotonic()
            self._read(self._began)
            ended, self._began = self._clock.monotonic(), None
            pause = self.probe.cadence if self._status.available else UNAVAILABLE_RETRY
            due = max(due + pause * self._scheduler.stretch, ended)

    def _read(self, began: float) -> None:
        samples: list[Sample] = []
        events: list[Event] = []
        try:
            _sort(self.probe.read(), samples, events)
        except Partly as reason:
            self._partly(samples, replace(self._status, ok=False, detail=str(reason)))
        except Unavailable as reason:
            self._failed(samples, ProbeStatus(self.probe.name, available=False, detail=str(reason)))
        except Exception as error:
            self._failed(samples, replace(self._status, ok=False, detail=_told(error)))
        else:
            self._alive.update((s.metric, s.labels) for s in samples)
            self._status = ProbeStatus(
                self.probe.name,
                last_success=self._clock.now(),
                duration=self._clock.monotonic() - began,
            )
        self._tell(samples, events, began)

    def _tell(self, samples: list[Sample], events: list[Event], began: float) -> None:
        quiet = self._status.ok and not samples and not events
        if quiet and began - self._told_at < QUIET_SECONDS:
            return
        self._told_at = began
        self._scheduler.put(samples + self._about(), events)

    def _partly(self, samples: list[Sample], status: ProbeStatus) -> None:
        self._turn_to(replace(status, available=True))
        given = {(s.metric, s.labels) for s in samples}
        now = self._clock.now()
        samples += [Sample(name, of, now, float("nan")) for name, of in self._alive - given]
        self._alive = given

    def _failed(self, samples: list[Sample], status: ProbeStatus) -> None:
        self._turn_to(status)
        # What it gave before is not known any more: mark it stale rather than let it linger.
        now = self._clock.now()
        samples[:] = [Sample(metric, of, now, float("nan")) for metric, of in self._alive]
        self._alive.clear()

    def _turn_to(self, status: ProbeStatus) -> None:
        if status.detail != self._status.detail:
            level = logging.WARNING if status.available else logging.INFO
            log.log(level, "probe %s: %s", self.probe.name, status.detail)
        self._status = status

    def _about(self) -> list[Sample]:
        status, now = self._status, self._clock.now()
        if not status.available:
            return []
        told = [
            Sample("gpudiag_probe_success", self._label, now, float(status.ok)),
            Sample("gpudiag_probe_duration_seconds", self._label, now, status.duration),
        ]
        if status.last_success is not None:
            name = "gpudiag_probe_last_success_timestamp_seconds"
            told.append(Sample(name, self._label, now, status.last_success))
        return told


def _sort(records: Iterable[Record], samples: list[Sample], events: list[Event]) -> None:
    for record in records:
        if isinstance(record, Sample):
            samples.append(record)
        else:
            events.append(record)


def _told(error: Exception) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
