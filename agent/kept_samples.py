"""What is still kept of the time around a finding: of the window, else of the black box."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, cast

import numpy as np

from gpudiag.agent.findings.finding import Finding
from gpudiag.agent.recording import reader
from gpudiag.agent.recording.drafting import Span, draft
from gpudiag.agent.recording.expectations import Expectations
from gpudiag.agent.recording.timeline import Columns, SeriesKey
from gpudiag.agent.recording.writer import ARCHIVE, BROKEN
from gpudiag.agent.replay import MIN_STEP
from gpudiag.agent.rules import RULES, default_limits
from gpudiag.agent.rules.contract import Rule
from gpudiag.agent.window import Window
from gpudiag.probes import Event, catalog
from gpudiag.probes.errors import UsageError

BEFORE_SECONDS = 900.0
AFTER_SECONDS = 60.0
MAX_MOMENTS = 1440
MAX_EVENTS = 2000

MAX_RECORDING_BYTES = 64 * 1024**2
"""Packed; the black box keeps a recording below a quarter of its share."""


@dataclass(frozen=True, slots=True)
class Kept:
    """Series and events of the time around a finding, with where they come from in words.

    Of `newest` no history is kept: the one value of each stands for all the time.
    """

    columns: tuple[Columns, ...]
    events: tuple[Event, ...]
    source: str
    newest: Mapping[SeriesKey, float] = field(default_factory=dict)


def span_of(finding: Finding, now: float) -> Span:
    """From 15 minutes before the symptom to a minute after it fired, in replay's own steps.

    What began hours ago is told in longer steps: 1,440 of them at most.
    """
    start = finding.since - BEFORE_SECONDS
    end = min(now, (finding.raised_at or finding.since) + AFTER_SECONDS)
    interval = max(MIN_STEP, np.ceil((end - start) / MAX_MOMENTS))
    return Span(start, float(interval), int((end - start) // interval) + 1)


def of_window(window: Window, finding: Finding, span: Span) -> Kept:
    """What the rule of this symptom reads, as far back as the window reaches.

    Of a series without a history the newest value stands for all the time, or the one that the
    finding gives as its evidence. Its owner's lock must be held.
    """
    rule = RULES[finding.symptom]
    history = rule.reads | rule.trends
    columns = tuple(
        ((metric, tuple(sorted(s.labels.items()))), s.times, s.values)
        for metric in sorted(history)
        for s in window.between(metric, span.start, span.end + span.interval)
    )
    newest = _newest(window, finding, _asked(window, rule) - history)
    events = window.events(max(0.0, window.now - span.start))
    return Kept(columns, tuple(events), "the agent's history", newest)


def _newest(window: Window, finding: Finding, metrics: Set[str]) -> dict[SeriesKey, float]:
    found = {(name, labels): value for name, labels, _, value in window.fresh() if name in metrics}
    for fact in finding.evidence:
        known = catalog.metrics().get(fact.name)
        if known and not isinstance(fact.value, str) and fact.unit == known.unit:
            keys = [k for k in found if k[0] == fact.name and fact.labels.items() <= {*k[1]}]
            found |= dict.fromkeys(keys, fact.value)
    return found


class _Listening:
    """A window that notes which metrics a rule asks it for."""

    def __init__(self, window: Window) -> None:
        self._window = window
        self.asked: set[str] = set()

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._window, name)
        if not callable(found):
            return found

        def noted(*words: Any, **match: Any) -> Any:
            if words and isinstance(words[0], str):
                self.asked.add(words[0])
            return found(*words, **match)

        return noted


def _asked(window: Window, rule: Rule) -> set[str]:
    listening = _Listening(window)
    list(rule.check(cast(Window, listening), default_limits(rule)))
    return listening.asked


def best(live: Kept, folder: Path, finding: Finding) -> Kept:
    """`live` where it has samples from before the finding fired, else a recording that does.

    Without either it is whatever is left: some events, or nothing.
    """
    raised = finding.raised_at or finding.since
    if any(times[0] <= raised for _, times, _ in live.columns):
        return live
    return of_recordings(folder, finding) or live


def of_recordings(folder: Path, finding: Finding) -> Kept | None:
    """The same from the black box's recording of that time; None where there is none."""
    path = recording_of(folder, finding)
    timeline = reader.read(path) if path else None
    if path is None or timeline is None or timeline.end < (finding.raised_at or finding.since):
        return None
    rule = RULES[finding.symptom]
    columns = []
    for number, key in enumerate(timeline.keys):
        if key[0] in rule.reads | rule.trends | {fact.name for fact in finding.evidence}:
            rows = timeline.series == number
            columns.append((key, timeline.times[rows], timeline.values[rows]))
    return Kept(tuple(columns), timeline.events, f"the recording {path.name}")


def recording_of(folder: Path, finding: Finding) -> Path | None:
    """The newest of the black box's recordings that may hold the moment it fired; None without.

    They are named by when they began, and hold 15 minutes before that.
    """
    raised = finding.raised_at or finding.since
    for path in sorted(folder.glob(f"*{ARCHIVE}*"), reverse=True):
        began = _began(path.name)
        if began is not None and began - BEFORE_SECONDS <= raised:
            too_large = path.is_file() and path.stat().st_size > MAX_RECORDING_BYTES
            return None if too_large or path.name.endswith(BROKEN) else path
    return None


def _began(name: str) -> float | None:
    try:
        return datetime.strptime(name.partition("-")[0], "%Y%m%dT%H%M%S%z").timestamp()
    except ValueError:
        return None


def incident_text(
    finding: Finding, span: Span, kept: Kept, notes: str, wanted: Expectations
) -> str:
    """A draft incident file of what was kept; raises `UsageError` where it would be empty."""
    events = [e for e in kept.events if span.start <= e.time <= span.end + span.interval]
    if not (kept.columns or kept.newest or events):
        raise UsageError("nothing of that time is kept")
    span = _fitted(span, kept.columns)
    moments = np.linspace(span.start, span.end, span.count, dtype=np.float64)
    alone: list[Columns] = [
        (key, moments, np.full(span.count, value, np.float64))
        for key, value in sorted(kept.newest.items())
    ]
    columns = [*kept.columns, *alone]
    notes = f"{notes} Drafted from {kept.source}: {finding.summary}".lstrip()
    if not (kept.columns or alone):
        # A replay ends with the last sample or event, and the rule may have waited longer.
        columns.append((("gpudiag_build_info", ()), moments, np.ones(span.count)))
    if alone:
        notes += f" The last {len(alone)} series have one value for all the time: no other is kept."
    return draft(f"Draft: {finding.id}", notes, span, columns, events[-MAX_EVENTS:], wanted)


def _fitted(span: Span, columns: Iterable[Columns]) -> Span:
    """The span in the steps of its densest series, where these are longer than its own."""
    gaps = [float(np.median(np.diff(times))) for _, times, _ in columns if len(times) > 1]
    interval = max(span.interval, float(np.round(min(gaps, default=0.0))))
    return Span(span.start, interval, int((span.end - span.start) // interval) + 1)
