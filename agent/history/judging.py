"""One node's history through the live rules, on its own clock, with memory for one chunk."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from gpudiag.agent.engine import Engine
from gpudiag.agent.findings.finding import Finding
from gpudiag.agent.history import traces
from gpudiag.agent.history.failing import ServerError
from gpudiag.agent.history.fetching import Chunk
from gpudiag.agent.history.noticed import Noticed, spacing_of
from gpudiag.agent.history.traces import Trace
from gpudiag.agent.recording.timeline import timeline
from gpudiag.agent.replay import MIN_STEP, Blind, still_blind
from gpudiag.probes import Sample
from gpudiag.probes.catalog import gravity

OnTime = Callable[[float], bool]
"""Told how far it is (epoch seconds); gives False to end early with what is known."""


@dataclass(frozen=True, slots=True)
class Judged:
    """What the rules said of one node; times are epoch seconds.

    `findings` as each last stood while firing, and once more where it was resolved. `until` is how
    far it came, `failed` why not to the end. `cpu_seconds` are this process' own, of `steps`.
    """

    node: str
    findings: tuple[Finding, ...] = ()
    blind: tuple[Blind, ...] = ()
    notes: tuple[str, ...] = ()
    traces: Mapping[str, list[Trace]] = field(default_factory=dict)
    samples: int = 0
    steps: int = 0
    step: float = 0.0
    until: float = 0.0
    cpu_seconds: float = 0.0
    failed: str = ""


class Judge:
    """Feeds chunks to a fresh engine and keeps what it says."""

    def __init__(
        self, node: str, engine: Engine, *, step: float = 0.0, with_traces: bool = False
    ) -> None:
        """`step` is the time between evaluations in seconds; 0 takes the samples' own spacing."""
        self._node = node
        self._engine = engine
        self._asked_step = step
        self._with_traces = with_traces
        self._spacing = 0.0
        self._step = 0.0
        self._next = 0.0
        self._carried: list[Sample] = []
        self._last: dict[tuple[str, float | None, str], Finding] = {}
        self._blind: dict[str, Blind] = {}
        self._traces: dict[str, list[Trace]] = {}
        self._noticed = Noticed()
        self._samples = self._steps = 0
        self._until = 0.0

    def run(self, chunks: Iterable[Chunk], end: float, on_time: OnTime) -> Judged:
        """Judge chunk after chunk; a server that fails, or an interrupt, ends it early."""
        began, failed = time.process_time(), ""
        try:
            for chunk in chunks:
                self._take(chunk)
                if not on_time(chunk.end):
                    failed = "interrupted"
                    break
            else:
                self._finish(end)
        except ServerError as error:
            failed = str(error)
        except KeyboardInterrupt:
            failed = "interrupted"
        return self._judged(end, time.process_time() - began, failed)

    def _take(self, chunk: Chunk) -> None:
        if not self._spacing:
            self._spacing = spacing_of(chunk.columns)
        self._noticed.take(chunk, self._spacing)
        cut = timeline(chunk.columns, ())
        if not len(cut.times) and not self._steps:
            return
        if not self._step:
            self._step = max(MIN_STEP, self._asked_step or self._spacing)
            self._next = cut.start
        at = 0
        while self._next <= chunk.end:
            samples, at = cut.samples(at, self._next)
            self._evaluate(self._next, self._carried + samples)
            self._next += self._step
        self._carried += cut.samples(at, chunk.end)[0]

    def _finish(self, end: float) -> None:
        if self._steps and self._carried:
            self._evaluate(min(end, self._next), self._carried)

    def _evaluate(self, now: float, samples: list[Sample]) -> None:
        self._carried = []
        self._samples += len(samples)
        self._steps += 1
        self._until = now
        self._engine.ingest(samples)
        for finding in self._engine.evaluate(now):
            self._keep(finding)
        self._blind = still_blind(now, self._engine.book.unknown(), self._blind)

    def _keep(self, finding: Finding) -> None:
        key = finding.id, finding.raised_at, finding.state
        before = self._last.get(key)
        # What was critical then and is history by now is told as it was at its worst.
        if before is None or gravity(finding.severity) >= gravity(before.severity):
            self._last[key] = finding
        now = self._engine.window.now
        if self._with_traces and finding.state == "firing" and traces.worth_it(finding, now):
            self._traces[finding.id] = traces.of(finding, self._engine.window) or self._traces.get(
                finding.id, []
            )

    def _judged(self, end: float, cpu: float, failed: str) -> Judged:
        for finding in self._engine.book.findings():
            if finding.state == "firing":
                self._keep(finding)
        until = min(end, self._until) if failed else end
        return Judged(
            node=self._node,
            findings=tuple(self._last.values()),
            blind=tuple(self._blind.values()),
            notes=tuple(self._noticed.lines(until, self._spacing)),
            traces=self._traces,
            samples=self._samples,
            steps=self._steps,
            step=self._step,
            until=until,
            cpu_seconds=cpu,
            failed=failed,
        )
