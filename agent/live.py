"""The running agent as exporters may see it: read under the writer's lock, from any thread."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

import msgspec
import numpy as np

from gpudiag.agent.engine import Engine
from gpudiag.agent.exporters.view import AgentInfo, Floats, Missing, Reading
from gpudiag.agent.findings.finding import Finding
from gpudiag.agent.findings.remark_store import Remarks
from gpudiag.agent.findings.tried import Tried
from gpudiag.agent.scheduler import ProbeStatus
from gpudiag.probes import Event, Labels


class Owner(Protocol):
    """The one that writes to the engine, and the lock it holds meanwhile."""

    @property
    def engine(self) -> Engine: ...

    @property
    def lock(self) -> threading.Lock: ...

    @property
    def generation(self) -> int: ...

    @property
    def findings(self) -> list[Finding]: ...


class LiveView:
    """A `View` of an engine at work and the probes' statuses."""

    def __init__(
        self,
        info: AgentInfo,
        writer: Owner,
        now: Callable[[], float],
        statuses: Callable[[], Sequence[ProbeStatus]],
        past: Callable[[float, float], list[Finding]] | None = None,
        remarks: Remarks | None = None,
        tried: Callable[[Finding], tuple[Tried, ...]] | None = None,
    ) -> None:
        self.info = info
        self.now = now
        self._writer = writer
        self._statuses = statuses
        self._past = past
        self._remarks = remarks
        self._tried = tried

    def generation(self) -> int:
        """Grows with each batch, each evaluation and each word of a person."""
        return self._writer.generation + (self._remarks.version if self._remarks else 0)

    def samples(self) -> Iterable[Reading]:
        """Every fresh series; staleness is judged as of now, not as of the last evaluation."""
        with self._writer.lock:
            self._writer.engine.window.now = self.now()
            return list(self._writer.engine.window.fresh())

    def history(self, metric: str, seconds: float, labels: Labels) -> tuple[Floats, Floats]:
        """Times and values of one series in the last `seconds`; empty where none are kept."""
        with self._writer.lock:
            for series in self._writer.engine.window.series(metric, seconds, **dict(labels)):
                return series.times.copy(), series.values.copy()
        return np.empty(0), np.empty(0)

    def events(self, seconds: float, source: str, kind: str) -> list[Event]:
        """Events of the last `seconds`, oldest first; an empty `source` or `kind` means any."""
        with self._writer.lock:
            return self._writer.engine.window.events(seconds, source, kind)

    def findings(self) -> list[Finding]:
        """Pending, firing and recently resolved ones, with what was said and done."""
        return self._remarked(self._writer.findings)

    def past(self, since: float, until: float) -> list[Finding]:
        """Those that fired at any moment from `since` to `until`; in a replay those still held."""
        if self._past:
            return self._remarked(self._past(since, until))
        return [f for f in self._writer.findings if f.fired_within(since, until)]

    def _remarked(self, findings: list[Finding]) -> list[Finding]:
        said = self._remarks.on(findings, self.now()) if self._remarks else findings
        return [self._with_history(finding) for finding in said]

    def _with_history(self, finding: Finding) -> Finding:
        tried = self._tried(finding) if self._tried else ()
        return msgspec.structs.replace(finding, tried=tried) if tried else finding

    def unknown(self) -> list[Missing]:
        """What cannot be told at the moment, by symptom."""
        with self._writer.lock:
            told = self._writer.engine.book.unknown()
        return [
            (symptom, tuple(dict.fromkeys(m for unknown in said for m in unknown.missing)))
            for symptom, said in told.items()
        ]

    def probes(self) -> list[ProbeStatus]:
        """The probes as they stand."""
        return list(self._statuses())
