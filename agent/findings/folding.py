"""Cause before consequence: which firing finding is explained by which other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpudiag.agent.findings.finding import Finding
from gpudiag.agent.rules.contract import Subject
from gpudiag.probes.catalog import symptoms


def fold(firing: Sequence[Finding]) -> Iterator[tuple[Finding, str]]:
    """Each firing finding with the id of the one that explains it, or an empty string.

    The catalogue says which symptom (or `symptom/cause`) may explain which; the two must speak of
    the same thing, see `related`.
    """
    for finding in firing:
        yield finding, next((o.id for o in firing if _explains(o, finding)), "")


def _explains(cause: Finding, finding: Finding) -> bool:
    known = symptoms().get(finding.symptom)
    if cause is finding or known is None:
        return False
    named = cause.symptom in known.explained_by
    exact = f"{cause.symptom}/{cause.cause}" in known.explained_by
    return (named or exact) and related(cause.subject, finding.subject)


def related(one: Subject, other: Subject) -> bool:
    """Whether no key that both subjects carry differs; a node-wide subject relates to all on it."""
    mine = dict(one)
    return all(mine.get(key, value) == value for key, value in other)
