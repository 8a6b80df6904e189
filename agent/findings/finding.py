"""A finding: frozen and complete, so that whoever shows it needs nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from gpudiag.agent.findings.remarks import Acknowledgement, Review
from gpudiag.agent.findings.tried import Tried
from gpudiag.agent.rules.contract import Evidence, Rival, Subject, Suggestion
from gpudiag.probes.catalog import Severity

State = Literal["pending", "firing", "resolved"]


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One symptom at one subject, with its cause and how we know. Times are epoch seconds.

    Identity is `symptom` + `subject`; `cause` is an attribute that may change as an update.
    `since` is when the symptom began, `raised_at` when it fired (None while pending),
    `resolved_at` and `reason` (cleared, ended) are set once resolved; `stale_since` while its
    inputs are missing; `explained_by` is the id of the finding it folds under, if any.
    `acknowledged` and `review` are what people said of it, `tried` what was done about its cause
    before; only those who show it fill them.
    """

    symptom: str
    subject: Subject
    cause: str
    confidence: float
    severity: Severity
    state: State
    since: float
    summary: str
    raised_at: float | None = None
    resolved_at: float | None = None
    reason: str = ""
    stale_since: float | None = None
    explained_by: str = ""
    evidence: tuple[Evidence, ...] = ()
    rivals: tuple[Rival, ...] = ()
    missing: tuple[str, ...] = ()
    actions: tuple[Suggestion, ...] = ()
    acknowledged: Acknowledgement | None = None
    review: Review | None = None
    tried: tuple[Tried, ...] = ()

    @property
    def id(self) -> str:
        """Stable name: `symptom` or `symptom{uuid=GPU-1}`."""
        return finding_id(self.symptom, self.subject)

    @property
    def runbook(self) -> str:
        """Page and section, `thermal-throttle#thermal-throttle`, as `gpudiag runbook` takes it."""
        return f"{self.symptom}#{self.cause}"

    def fired_within(self, since: float, until: float) -> bool:
        """Whether it was firing at any moment from `since` to `until`."""
        raised, ended = self.raised_at, self.resolved_at
        return raised is not None and raised <= until and (ended is None or ended >= since)

    def to_json(self) -> dict[str, Any]:
        """The shape that the command line, the API and webhooks share."""
        plain: dict[str, Any] = msgspec.to_builtins(self)
        plain["subject"] = dict(self.subject)
        plain["id"] = self.id
        plain["runbook"] = self.runbook
        return plain


def finding_id(symptom: str, subject: Subject) -> str:
    """The identity of a finding as text."""
    return f"{symptom}{{{subject_label(subject)}}}" if subject else symptom


def subject_label(subject: Subject) -> str:
    """The subject as one label value: `job=llama,rank=3`."""
    return ",".join(f"{key}={value}" for key, value in subject)


def subject_matches(wanted: Mapping[str, str], subject: Subject) -> bool:
    """Whether every pair of `wanted` stands in the subject."""
    return wanted.items() <= dict(subject).items()
