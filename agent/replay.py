"""Replay: the real rules over what was recorded, on its own clock and far faster than it was."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from gpudiag.agent.engine import Engine, window_for
from gpudiag.agent.findings.book import Book
from gpudiag.agent.findings.finding import Finding
from gpudiag.agent.recording import incident, reader
from gpudiag.agent.recording.timeline import Timeline
from gpudiag.agent.rules import RULES, default_limits
from gpudiag.agent.rules.contract import Rule, Unknown
from gpudiag.probes.errors import UsageError

MIN_STEP = 5.0
MAX_STEPS = 1_000_000
"""Evaluations in one replay: two months at 5 s; beyond it a time in the file is surely wrong."""


@dataclass(frozen=True, slots=True)
class Blind:
    """A symptom that could not be told at the end: since when, and what would tell."""

    symptom: str
    since: float
    missing: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """The line that stands for it beside the findings."""
        return {"symptom": self.symptom, "state": "unknown", "missing": list(self.missing)}


@dataclass(frozen=True, slots=True)
class Run:
    """What a replay gave, with all times in seconds from the recording's start.

    `versions` are firing and resolved findings each time they changed, oldest first, ending with
    how they stood at the end; `blind` what could not be told then.
    """

    versions: tuple[Finding, ...]
    blind: tuple[Blind, ...]

    def findings(self) -> list[Finding]:
        """Each finding as it last stood while firing, and once more where it was resolved."""
        last = {(f.id, f.raised_at, f.state): f for f in self.versions}
        return sorted(last.values(), key=_moment)


def load(path: Path) -> Timeline:
    """What `path` holds: an incident file (`.yaml`, `.yml`) or a recording."""
    yaml = path.suffix in (".yaml", ".yml")
    timeline = incident.read(path).timeline if yaml else reader.read(path)
    if (timeline.end - timeline.start) / _step(timeline) > MAX_STEPS:
        days = (timeline.end - timeline.start) / 86400
        raise UsageError(f"{path} spans {days:.0f} days: a time in it must be wrong")
    return timeline


def fresh_engine(rules: Mapping[str, Rule] = RULES) -> Engine:
    """The live engine with an empty window, an empty book and the limits as shipped."""
    limits = {symptom: default_limits(rule) for symptom, rule in rules.items()}
    return Engine(rules, limits, window_for(rules), Book(rules))


Watch = Callable[[float, Sequence[Finding]], None]
"""Told the time of each step and the findings that then stand."""


def replay(timeline: Timeline, engine: Engine, watch: Watch = lambda _now, _found: None) -> Run:
    """Feed `timeline` to a fresh `engine`, evaluating at every step and at each event.

    A step is the recording's interval, at least 5 s. An event off the step runs those rules that
    ask for it, as live. The same timeline gives the same run, always.
    """
    versions: list[Finding] = []
    blind: dict[str, Blind] = {}
    for now, samples, events, on_step in timeline.batches(_step(timeline)):
        wanted = engine.ingest(samples, events)
        if on_step or wanted:
            versions += engine.evaluate(now, None if on_step else wanted)
            blind = still_blind(now - timeline.start, engine.book.unknown(), blind)
        if on_step:
            watch(now, engine.book.findings())
    versions += [f for f in engine.book.findings() if f.state == "firing"]
    return Run(tuple(_from_start(f, timeline.start) for f in versions), tuple(blind.values()))


def _step(timeline: Timeline) -> float:
    return max(MIN_STEP, timeline.interval)


def still_blind(
    now: float, unknown: Mapping[str, Sequence[Unknown]], before: Mapping[str, Blind]
) -> dict[str, Blind]:
    """What cannot be told at `now`, each since when; `before` is what was so at the last step."""
    return {
        symptom: Blind(
            symptom,
            before[symptom].since if symptom in before else now,
            tuple(dict.fromkeys(missing for one in said for missing in one.missing)),
        )
        for symptom, said in sorted(unknown.items())
    }


def _from_start(finding: Finding, start: float) -> Finding:
    times = {
        name: None if at is None else round(at - start, 3)
        for name in ("since", "raised_at", "resolved_at", "stale_since")
        for at in [getattr(finding, name)]
    }
    return msgspec.structs.replace(finding, **times)


def _moment(finding: Finding) -> tuple[float, str]:
    at = finding.resolved_at if finding.state == "resolved" else finding.raised_at
    return (at or 0.0, finding.id)
