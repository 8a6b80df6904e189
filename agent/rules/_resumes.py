"""Whether a restarted job went on where its checkpoint was: by step counter, events and log."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from gpudiag.agent.rules._ends import End
from gpudiag.agent.rules._jobs import Job
from gpudiag.agent.rules._teams import STEPS
from gpudiag.agent.rules._train_words import Said
from gpudiag.agent.rules.contract import Evidence, Limits
from gpudiag.agent.window import Window
from gpudiag.probes import Event

SAVES = "gpudiag_checkpoint_saves_total"
READS = frozenset({STEPS, SAVES})
TRENDS = frozenset({STEPS})

_STEP = re.compile(r"(?:global_?step|step|iter(?:ation)?)[ =:_-]*(\d+)", re.IGNORECASE)
RECENT = 900.0


class Fall(NamedTuple):
    """The step counter fell from `peak` to `to` at about `time`."""

    time: float
    peak: float
    to: float


class Lost(NamedTuple):
    """A resume that lost work: steps redone, the checkpoint that was there, and what tells so."""

    fall: Fall
    saved: float | None
    words: str
    confidence: float
    evidence: list[Evidence]


def lost(
    window: Window,
    job: Job,
    ends: Sequence[End],
    lines: Sequence[tuple[Event, Said]],
    limits: Limits,
) -> Lost | None:
    """What a restart lost beyond its newest checkpoint; None where nothing, or who knows."""
    fall = _fall(window, job, limits["resume_back"])
    if fall is None or _finished(ends, fall):
        return None
    events = window.events(window.now - fall.time + limits["resume_back"], source="torch")
    mine = [e for e in events if e.fields.get("job", job.name) == job.name]
    loaded = [_step(e) for e in mine if e.type == "checkpoint_loaded" and e.time >= fall.time - 600]
    loaded += [s.step for e, s in lines if s.kind == "resume" and e.time >= fall.time - 600.0]
    if None in loaded:
        # It did load one and counts its own steps from there.
        return None
    at = max([fall.to, *(float(step) for step in loaded if step is not None)])
    saved = _last_saved(window, job, mine, lines, fall)
    scratch = next(
        (e for e, s in lines if s.kind == "scratch" and e.time >= fall.time - 600.0), None
    )
    evidence = [Evidence(STEPS, at, "steps", f"from {fall.peak:.0f}", {"job": job.name})]
    if scratch:
        evidence.append(Evidence(scratch.source, scratch.line))
    if saved is not None:
        evidence.append(Evidence("last checkpoint", saved, "steps"))
        if at >= saved - limits["resume_slack"] * fall.peak:
            return None
        words = f"it went on at step {at:.0f} though step {saved:.0f} had been saved"
        return Lost(fall, saved, words, 0.9, evidence)
    if at <= limits["resume_zero"] * fall.peak:
        words = f"it began anew at step {at:.0f} after {fall.peak:.0f}"
        return Lost(fall, None, words, 0.85 if scratch else 0.7, evidence)
    return None


def _fall(window: Window, job: Job, seconds: float) -> Fall | None:
    """The newest fall of the counter that is not yet made good."""
    for point in window.latest(STEPS, job=job.name)[:1]:
        recent = _recent_fall(window, point.labels, point.value)
        older = _older_fall(window, point.labels, point.value, seconds)
        if recent and older:
            return Fall(recent.time, max(recent.peak, older.peak), min(recent.to, older.to))
        return recent or older
    return None


def _recent_fall(window: Window, labels: dict[str, str], newest: float) -> Fall | None:
    for series in window.series(STEPS, RECENT, **labels):
        if not len(series.values):
            return None
        # What was added to bridge falls is the height that the last of them fell from.
        peak = float(series.values[-1]) - newest
        after = series.values > peak
        if peak > 0.0 and newest < peak and after.any() and not after[0]:
            first = int(after.argmax())
            return Fall(float(series.times[first]), peak, float(series.values[first]) - peak)
    return None


def _older_fall(
    window: Window, labels: dict[str, str], newest: float, seconds: float
) -> Fall | None:
    highs = window.minutes(STEPS, seconds, "max", **labels)
    if not highs or not len(highs[0].values) or highs[0].values.max() <= newest:
        return None
    lows = window.minutes(STEPS, seconds, "min", **labels)[0]
    top = len(highs[0].values) - 1 - int(highs[0].values[::-1].argmax())
    peak = float(highs[0].values[top])
    to = min(float(lows.values[top:].min()), newest)
    return Fall(float(highs[0].times[top]) + 60.0, peak, to)


def _finished(ends: Sequence[End], fall: Fall) -> bool:
    """Whether the run before had come to its own end: what follows is another run."""
    before = [e for e in ends if e.time <= fall.time]
    return bool(before) and before[-1].clean


def _step(event: Event) -> int | None:
    text = event.fields.get("step", "")
    # A process that counts its own steps loads its checkpoint before the first of them.
    if text.isdigit() and (event.type != "checkpoint_loaded" or int(text) > 0):
        return int(text)
    found = _STEP.search(event.line)
    return int(found[1]) if found else None


def _last_saved(
    window: Window,
    job: Job,
    events: Sequence[Event],
    lines: Sequence[tuple[Event, Said]],
    fall: Fall,
) -> float | None:
    steps = [_step(e) for e in events if e.type == "checkpoint_saved" and e.time <= fall.time]
    steps += [s.step for e, s in lines if s.kind == "saved" and e.time <= fall.time]
    known = [float(step) for step in steps if step is not None and step <= fall.peak]
    return max(known) if known else _saved_by_counter(window, job, fall)


def _saved_by_counter(window: Window, job: Job, fall: Fall) -> float | None:
    """Where the steps stood when the number of saves last rose before the fall."""
    back = window.now - fall.time + RECENT
    saved = [
        float(s.times[1:][rises][-1])
        for s in window.series(SAVES, back, job=job.name)
        if (rises := (s.times[1:] < fall.time) & (s.values[1:] > s.values[:-1])).any()
    ]
    if not saved:
        return None
    for series in window.series(STEPS, back, job=job.name)[:1]:
        # The reading before, as the save itself comes somewhere between the two.
        before = series.values[series.times < max(saved)]
        return float(before[-1]) if len(before) and before[-1] <= fall.peak else None
    return None
