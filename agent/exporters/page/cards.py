"""Findings as cards: worst first, consequences folded under what explains them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec
from markupsafe import Markup

from gpudiag.agent.exporters import words
from gpudiag.agent.exporters.page import charts, expected
from gpudiag.agent.exporters.view import Reading, Snapshot, View
from gpudiag.agent.findings.finding import Finding
from gpudiag.agent.rules.contract import UNDETERMINED, Evidence
from gpudiag.probes.catalog import gravity, metrics

CHART_SECONDS = 1800.0
_NO_CHART = Markup("")


@dataclass(frozen=True, slots=True)
class Fact:
    """One piece of evidence: what it is, its value and what was expected, drawn where possible.

    `banded` tells that the chart shows the expected range, `said` that the value is a line of text.
    """

    name: str
    help: str
    value: str
    expected: str
    chart: Markup
    charted: str
    banded: bool
    said: bool


@dataclass(frozen=True, slots=True)
class Step:
    """One thing to do next; `whose` is the folded symptom that asks for it, empty for its own."""

    rung: str
    text: str
    whose: str = ""


@dataclass(frozen=True, slots=True)
class Card:
    """One finding as the page shows it, with those folded under it and all there is to do."""

    finding: Finding
    where: str
    cause: str
    sure: str
    since: str
    lasting: str
    silent: str
    ended: str
    remarks: tuple[str, ...]
    facts: tuple[Fact, ...]
    steps: tuple[Step, ...]
    folded: tuple[Card, ...]


@dataclass(frozen=True, slots=True)
class Findings:
    """What the page shows of findings: `firing` ones are wrong, `informing` ones good to know."""

    firing: tuple[Card, ...]
    informing: tuple[Card, ...]
    pending: tuple[Card, ...]
    resolved: tuple[Card, ...]


class Dealer:
    """Makes the cards of one snapshot; `indices` is a GPU's number by its UUID."""

    def __init__(self, snapshot: Snapshot, view: View, indices: Mapping[str, str]) -> None:
        self._snapshot = snapshot
        self._view = view
        self._indices = indices

    def findings(self) -> Findings:
        """All cards. A folded finding whose explainer is not firing stands on its own."""
        found = sorted(self._snapshot.findings, key=_worst_first)
        firing = [f for f in found if f.state == "firing"]
        ids = {f.id for f in firing}
        resolved = sorted(
            (f for f in found if f.state == "resolved"), key=lambda f: -(f.resolved_at or 0.0)
        )
        own = [f for f in firing if f.explained_by not in ids]
        return Findings(
            firing=tuple(self._card(f, firing) for f in own if f.severity != "info"),
            informing=tuple(self._card(f, firing) for f in own if f.severity == "info"),
            pending=tuple(self._card(f, []) for f in found if f.state == "pending"),
            resolved=tuple(self._card(f, []) for f in resolved),
        )

    def _card(self, finding: Finding, firing: list[Finding]) -> Card:
        now = self._snapshot.now
        silent, ended = finding.stale_since, finding.resolved_at
        # Explanations do not run in a circle (the catalogue refuses them), so this ends.
        folded = tuple(self._card(f, firing) for f in firing if f.explained_by == finding.id)
        return Card(
            finding=finding,
            where=words.subject(dict(finding.subject), self._indices),
            cause=_cause(finding),
            sure=f"{words.confidence(finding.confidence)} ({finding.confidence:.0%})",
            since=words.clock(finding.since),
            lasting=words.duration((ended or now) - finding.since),
            silent="" if silent is None else words.duration(now - silent),
            ended="" if ended is None else words.duration(now - ended),
            remarks=tuple(words.remarks(msgspec.to_builtins(finding))),
            facts=tuple(self._fact(finding, evidence) for evidence in finding.evidence),
            steps=_steps(finding, folded),
            folded=folded,
        )

    def _fact(self, finding: Finding, evidence: Evidence) -> Fact:
        metric = metrics().get(evidence.name)
        said = words.fact(msgspec.to_builtins(evidence))
        drawn, charted = self._chart(finding, evidence, said.expected)
        return Fact(
            name=said.title,
            help=metric.help if metric else "",
            value=said.value,
            expected=said.expected,
            chart=drawn,
            charted=charted,
            banded='class="band"' in drawn,
            said=isinstance(evidence.value, str),
        )

    def _chart(self, finding: Finding, evidence: Evidence, wanted: str) -> tuple[Markup, str]:
        reading = self._series(finding, evidence)
        if reading is None:
            return _NO_CHART, ""
        metric, pairs = metrics()[reading[0]], reading[1]
        times, values = self._view.history(metric.name, CHART_SECONDS, pairs)
        limits = expected.limits(evidence.expected)
        span = "last " + words.duration(float(times[-1] - times[0])) if len(times) else ""
        if metric.kind == "counter" and len(times) > 2:
            limits = None
            if metric.unit:
                values = (values[1:] - values[:-1]) / (times[1:] - times[:-1])
                times, span = times[1:], span + ", per second"
            else:
                values, span = values - values[0], span + ", counted since then"
        if len(times) < 2:
            return _NO_CHART, ""
        # A flag's evidence is the share of time that it was set: the chart speaks of shares too.
        unit = (evidence.unit if metric.kind == "gauge" else "") or metric.unit
        low, high = (words.quantity(float(v), unit) for v in (values.min(), values.max()))
        span += f", {low} to {high}" if low != high else f", steady at {low}"
        label = f"{words.measure(metric)}, {span}; expected {wanted or 'not stated'}"
        return charts.chart(times, values, limits=limits, since=finding.since, label=label), span

    def _series(self, finding: Finding, evidence: Evidence) -> Reading | None:
        """The one fresh series that the evidence means; None where several or none may be meant."""
        wanted = dict(evidence.labels) or dict(finding.subject)
        wanted.pop("node", None)
        hits = [
            reading
            for reading in self._snapshot.samples
            if reading[0] == evidence.name and wanted.items() <= dict(reading[1]).items()
        ]
        return hits[0] if len(hits) == 1 and evidence.name in metrics() else None


def _worst_first(finding: Finding) -> tuple[int, float, float]:
    return -gravity(finding.severity), -finding.confidence, finding.since


def _steps(finding: Finding, folded: tuple[Card, ...]) -> tuple[Step, ...]:
    """Its own actions, then what only the folded ones ask for: all there is to do in one list."""
    steps = {action.text: Step(action.rung, action.text) for action in finding.actions}
    for card in folded:
        symptom = words.plain(card.finding.symptom)
        for step in card.steps:
            steps.setdefault(step.text, Step(step.rung, step.text, step.whose or symptom))
    return tuple(steps.values())


def _cause(finding: Finding) -> str:
    if finding.cause == UNDETERMINED:
        return "not determined yet"
    return words.plain(finding.cause)
