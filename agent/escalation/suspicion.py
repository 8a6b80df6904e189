"""Which processes deserve a closer look. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gpudiag.agent.findings.finding import Finding

SYMPTOM = "memory-slow-growth"

IN_TORCH = frozenset(
    {
        *("tensors-retained-across-steps", "log-or-cache-buffers", "undetermined"),
        *("temporaries-not-freed-after-step", "fragmentation-growth", "caching-growth"),
    }
)
"""Causes that a snapshot or a census can tell more of; the others lie outside this process."""


@dataclass(frozen=True, slots=True)
class Suspect:
    """A rank whose memory grows."""

    job: str
    rank: int


def suspects(findings: Iterable[Finding]) -> list[Suspect]:
    """Ranks with a growth that looks real: pending is enough, the rule has judged a trend.

    Warm-up gives no finding, and what may yet be the rising part of a cycle one of severity info:
    a look at it would take the cycle for a leak.
    """
    found = []
    for finding in findings:
        who = dict(finding.subject)
        told = finding.symptom == SYMPTOM and finding.state != "resolved"
        if (
            told
            and finding.severity != "info"
            and finding.cause in IN_TORCH
            and who.get("job")
            and who.get("rank", "").isdigit()
        ):
            found.append(Suspect(who["job"], int(who["rank"])))
    return found
