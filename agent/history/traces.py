"""The evidence of a finding as curves: kept while the window still has it, few points each."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
import numpy as np

from gpudiag.agent.findings.finding import Finding
from gpudiag.agent.window import Window
from gpudiag.agent.window.answers import Series

BEFORE = 600.0
AFTER = 1800.0
"""Seconds shown before a finding began and after it fired: the change is what is looked for."""

LONGEST_RAW = 7200.0
LONGEST = 48 * 3600.0
POINTS = 120
CURVES = 4


class Trace(msgspec.Struct, frozen=True):
    """One curve: the metric, its labels, times in epoch seconds and values, as many of both."""

    metric: str
    labels: dict[str, str]
    times: list[float]
    values: list[float]


def worth_it(finding: Finding, now: float) -> bool:
    """Whether the window still shows how it began, or it is of the kind that creeps for hours."""
    raised = finding.raised_at or now
    return now - raised <= AFTER or raised - finding.since > LONGEST_RAW


def of(finding: Finding, window: Window) -> list[Trace]:
    """The history of what the finding names as evidence, from before it began."""
    found: list[Trace] = []
    asked = {(fact.name, tuple(sorted(fact.labels.items()))) for fact in finding.evidence}
    about = {key: value for key, value in finding.subject if key in ("uuid", "job", "rank")}
    for metric, labels in sorted(asked):
        span = window.now - finding.since + BEFORE
        for series in _most_told(_history(window, metric, span, about | dict(labels))):
            found.append(_trace(metric, series))
    return found[:CURVES]


def _history(window: Window, metric: str, span: float, match: dict[str, str]) -> list[Series]:
    if span > LONGEST_RAW:
        minutes = window.minutes(metric, min(span, LONGEST), "mean", **match)
        if minutes:
            return minutes
    return window.series(metric, min(span, LONGEST_RAW), **match)


def _most_told(several: Iterable[Series]) -> list[Series]:
    with_points = [one for one in several if len(one.times) > 1]
    return sorted(with_points, key=lambda one: -len(one.times))[:CURVES]


def _trace(metric: str, series: Series) -> Trace:
    chosen = np.unique(np.linspace(0, len(series.times) - 1, POINTS).astype(int))
    return Trace(
        metric, dict(series.labels), series.times[chosen].tolist(), series.values[chosen].tolist()
    )
