"""The life of findings: pending, firing, resolved, with hold, freeze and folding."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from gpudiag.agent.findings.finding import Finding
from gpudiag.agent.findings.folding import fold
from gpudiag.agent.rules.contract import Diagnosis, Healthy, Rule, Subject, Unknown, Verdict
from gpudiag.probes.catalog import Severity, symptoms

AGREEING = 3
"""Evaluations in a row that must name another cause before a firing finding changes its own."""

FOLD_GRACE = 300.0
"""Seconds a consequence stays folded after its cause has resolved: it may take longer to clear."""

PENDING_GRACE = 60.0
"""Seconds a pending finding may go unmentioned before it is dropped."""

CARRIED_GRACE = 120.0
"""Seconds more that a finding from before a restart must be healthy before it clears: a kill costs
the window its last minute, and a standstill shows only once it has lasted a minute again."""

RECENT_SECONDS = 24 * 3600.0

Outcomes = Mapping[str, Sequence[Verdict]]
"""What each rule that ran said, by symptom; a rule that did not run is not among the keys."""


_Key = tuple[str, Subject]
"""The identity of a finding: symptom and subject."""


@dataclass(slots=True)
class _Entry:
    finding: Finding
    pending_since: float
    seen_at: float
    carried: bool = False
    healthy_since: float | None = None
    other_cause: str = ""
    agreed: int = 0
    explained_at: float = float("-inf")


class Book:
    """All findings that are pending, firing or lately resolved. Not thread-safe: one writer."""

    def __init__(self, rules: Mapping[str, Rule], firing: Iterable[Finding] = ()) -> None:
        """`firing` are findings carried over from before a restart: known, not raised again."""
        self._rules = rules
        self._entries: dict[_Key, _Entry] = {}
        self._resolved: list[Finding] = []
        self._unknown: dict[str, list[Unknown]] = {}
        self.raised: Counter[tuple[str, str]] = Counter()
        """How often each (symptom, cause) has begun to fire since the start."""
        for finding in firing:
            began = finding.raised_at or finding.since
            entry = _Entry(finding, finding.since, began, carried=True)
            self._entries[finding.symptom, finding.subject] = entry

    def findings(self) -> list[Finding]:
        """Pending and firing findings, then those resolved in the last 24 h."""
        return [entry.finding for entry in self._entries.values()] + self._resolved

    def unknown(self) -> dict[str, list[Unknown]]:
        """What could not be told at the last evaluation, by symptom."""
        return {symptom: said for symptom, said in self._unknown.items() if said}

    def update(self, now: float, outcomes: Outcomes) -> list[Finding]:
        """Take one evaluation's outcomes; gives the findings that changed in more than evidence."""
        before = {key: entry.finding for key, entry in self._entries.items()}
        resolved: list[Finding] = []
        for symptom, verdicts in outcomes.items():
            self._unknown[symptom] = [v for v in verdicts if isinstance(v, Unknown)]
            self._take(now, symptom, verdicts, resolved)
        self._fold(now)
        self._remember(now, resolved)
        changed = [
            entry.finding
            for key, entry in self._entries.items()
            if entry.finding.state != "pending" and _differs(before.get(key), entry.finding)
        ]
        return changed + resolved

    def reconfigure(self, now: float, rules: Mapping[str, Rule]) -> list[Finding]:
        """Judge by other rules; a finding whose rule is gone ends, with the reason `disabled`."""
        self._rules = rules
        self._unknown = {s: said for s, said in self._unknown.items() if s in rules}
        return self._end(now, [key for key in self._entries if key[0] not in rules], "disabled")

    def end(self, now: float, matches: Callable[[Subject], bool], reason: str) -> list[Finding]:
        """What they speak of has come to its end, not to health; gives those that had fired."""
        return self._end(now, [key for key in self._entries if matches(key[1])], reason)

    def rebase(self, seconds: float) -> None:
        """The clock jumped: shift the running timers, not the moments already told to people."""
        for entry in self._entries.values():
            entry.pending_since += seconds
            entry.seen_at += seconds
            if entry.healthy_since is not None:
                entry.healthy_since += seconds

    def _end(self, now: float, gone: Iterable[_Key], reason: str) -> list[Finding]:
        ended = [_closed(self._entries.pop(key).finding, now, reason) for key in gone]
        resolved = [finding for finding in ended if finding.raised_at is not None]
        self._remember(now, resolved)
        return resolved

    def _take(
        self, now: float, symptom: str, verdicts: Sequence[Verdict], resolved: list[Finding]
    ) -> None:
        rule = self._rules[symptom]
        judged: set[Subject] = set()
        for verdict in verdicts:
            key = (symptom, verdict.subject)
            if isinstance(verdict, Diagnosis):
                judged.add(verdict.subject)
                self._diagnosed(now, symptom, verdict, rule)
            elif isinstance(verdict, Healthy):
                judged.add(verdict.subject)
                self._healthy(now, key, rule, resolved)
        for key in [k for k in self._entries if k[0] == symptom and k[1] not in judged]:
            self._freeze(now, key)

    def _diagnosed(self, now: float, symptom: str, said: Diagnosis, rule: Rule) -> None:
        entry = self._entries.get((symptom, said.subject))
        if entry is None:
            entry = _Entry(_opened(now, symptom, said), pending_since=now, seen_at=now)
            self._entries[symptom, said.subject] = entry
        entry.seen_at, entry.healthy_since, entry.carried = now, None, False
        entry.finding = _refreshed(entry, said)
        if entry.finding.state == "pending" and now - entry.pending_since >= rule.hold:
            entry.finding = msgspec.structs.replace(entry.finding, state="firing", raised_at=now)
            self.raised[symptom, said.cause] += 1

    def _healthy(self, now: float, key: _Key, rule: Rule, resolved: list[Finding]) -> None:
        entry = self._entries.get(key)
        if entry is None:
            return
        if entry.finding.state == "pending":
            del self._entries[key]
            return
        entry.seen_at = now
        entry.finding = msgspec.structs.replace(entry.finding, stale_since=None)
        if entry.healthy_since is None:
            entry.healthy_since = now
        if now - entry.healthy_since >= rule.clear + CARRIED_GRACE * entry.carried:
            del self._entries[key]
            resolved.append(_closed(entry.finding, now, "cleared"))

    def _freeze(self, now: float, key: _Key) -> None:
        entry = self._entries[key]
        if entry.finding.state == "pending":
            if now - entry.seen_at > PENDING_GRACE:
                del self._entries[key]
            return
        # Silence is not health: the time without data counts neither for nor against it.
        entry.healthy_since = None
        if entry.finding.stale_since is None:
            entry.finding = msgspec.structs.replace(entry.finding, stale_since=now)

    def _fold(self, now: float) -> None:
        firing = [e.finding for e in self._entries.values() if e.finding.state == "firing"]
        for finding, explainer in fold(firing):
            entry = self._entries[finding.symptom, finding.subject]
            if explainer:
                entry.explained_at = now
            elif now - entry.explained_at < FOLD_GRACE:
                continue
            if finding.explained_by != explainer:
                entry.finding = msgspec.structs.replace(finding, explained_by=explainer)

    def _remember(self, now: float, resolved: list[Finding]) -> None:
        self._resolved += resolved
        while self._resolved and now - (self._resolved[0].resolved_at or now) > RECENT_SECONDS:
            self._resolved.pop(0)


def _opened(now: float, symptom: str, said: Diagnosis) -> Finding:
    return Finding(
        symptom=symptom,
        subject=said.subject,
        cause=said.cause,
        confidence=said.confidence,
        severity=_severity(symptom, said),
        state="pending",
        since=said.since if said.since is not None else now,
        summary=said.summary,
    )


def _refreshed(entry: _Entry, said: Diagnosis) -> Finding:
    """The finding after one more evaluation: new evidence, and a new cause once it is agreed."""
    finding = entry.finding
    if said.cause != finding.cause and finding.state == "firing":
        entry.agreed = entry.agreed + 1 if said.cause == entry.other_cause else 1
        entry.other_cause = said.cause
        if entry.agreed < AGREEING:
            return msgspec.structs.replace(finding, stale_since=None)
    entry.agreed, entry.other_cause = 0, ""
    return msgspec.structs.replace(
        finding,
        cause=said.cause,
        confidence=said.confidence,
        severity=_severity(finding.symptom, said),
        since=min(finding.since, said.since) if said.since is not None else finding.since,
        summary=said.summary,
        evidence=said.evidence,
        rivals=said.rivals,
        missing=said.missing,
        actions=said.actions,
        stale_since=None,
    )


def _severity(symptom: str, said: Diagnosis) -> Severity:
    return said.severity or symptoms()[symptom].severity


def _closed(finding: Finding, now: float, reason: str) -> Finding:
    return msgspec.structs.replace(
        finding, state="resolved", resolved_at=now, reason=reason, explained_by=""
    )


def _differs(before: Finding | None, after: Finding) -> bool:
    if before is None:
        return True
    return (before.state, before.cause, before.severity, before.explained_by) != (
        after.state,
        after.cause,
        after.severity,
        after.explained_by,
    ) or (before.stale_since is None) != (after.stale_since is None)
