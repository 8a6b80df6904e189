"""What a firing finding says as series: its confidence, the facts behind it and who lost."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gpudiag.agent.exporters.view import Reading
from gpudiag.agent.findings.finding import Finding, subject_label
from gpudiag.probes import labels
from gpudiag.probes.catalog import gravity

DETAILED = 10
"""Findings of a node that are told with their facts and rivals, the gravest: who has more firing at
once reads the agent's own page."""

FACTS = 8
"""Facts of a finding that become series: rules put the telling ones first."""

METRICS = frozenset(
    {
        "gpudiag_finding_active",
        "gpudiag_finding_acknowledged_until_timestamp_seconds",
        "gpudiag_finding_evidence",
        "gpudiag_finding_rival",
    }
)


def told(findings: Iterable[Finding], now: float) -> Iterator[Reading]:
    """The series of what fires at `now`, epoch seconds.

    Facts that are text, such as a kernel line, stay out: a label must not hold what never ends.
    """
    firing = list(findings)
    gravest = sorted(firing, key=lambda one: (-gravity(one.severity), one.since, one.id))[:DETAILED]
    for finding in firing:
        yield from _that_it_fires(finding, now)
        if finding in gravest:
            yield from _behind(finding, now)


def _that_it_fires(finding: Finding, now: float) -> Iterator[Reading]:
    which = {"symptom": finding.symptom, "subject": subject_label(finding.subject)}
    cause = {**which, "cause": finding.cause}
    pairs = labels(**cause, severity=finding.severity)
    yield "gpudiag_finding_active", pairs, now, finding.confidence
    if said := finding.acknowledged:
        until = "gpudiag_finding_acknowledged_until_timestamp_seconds"
        yield until, labels(**which), now, said.until


def _behind(finding: Finding, now: float) -> Iterator[Reading]:
    which = {"symptom": finding.symptom, "subject": subject_label(finding.subject)}
    cause = {**which, "cause": finding.cause}
    for fact in finding.evidence[:FACTS]:
        if not isinstance(fact.value, str):
            of = subject_label(tuple(sorted(fact.labels.items())))
            pairs = labels(**cause, fact=fact.name, of=of, unit=fact.unit)
            yield "gpudiag_finding_evidence", pairs, now, float(fact.value)
    for rival in finding.rivals:
        yield "gpudiag_finding_rival", labels(**cause, rival=rival.cause), now, 1.0
