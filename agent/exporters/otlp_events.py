"""The life of findings and actions as OpenTelemetry events: log records that have a name.

Named by the conventions where they have a name (`hw.id`, `host.name`, `process.pid`,
`system.filesystem.mountpoint`, `system.device`), else under `gpudiag.`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from gpudiag.agent.exporters.view import Snapshot
from gpudiag.agent.findings.finding import Finding
from gpudiag.probes.catalog import Severity

INFO, WARN, ERROR = 9, 13, 17
"""SeverityNumber of the logs data model: INFO, WARN and ERROR."""

SEVERITIES: Mapping[Severity, int] = {"info": INFO, "warning": WARN, "critical": ERROR}
"""FATAL is a program's own end in that model, so that what is critical is an ERROR."""

_SUBJECT = {
    "uuid": "hw.id",
    "node": "host.name",
    "pid": "process.pid",
    "mountpoint": "system.filesystem.mountpoint",
    "device": "system.device",
}
_BAD = frozenset({"failed", "not_verified", "worse"})

Value = str | int | float


@dataclass(frozen=True, slots=True)
class Happening:
    """One event: its name, when it was (epoch seconds), how grave, and what it says."""

    name: str
    time: float
    severity: int
    body: str
    attributes: Mapping[str, Value]


@dataclass
class Changes:
    """Compares snapshots and ledgers with the last ones; each change is told once.

    What had fired before the agent began is known already, and so is every action.
    """

    _findings: dict[tuple[str, float], tuple[Value, ...]] = field(default_factory=dict)
    _actions: dict[str, str] | None = None

    def of_findings(self, snapshot: Snapshot) -> Iterator[Happening]:
        """Raised, updated and resolved since the last call, as far as it was not told."""
        before, self._findings = self._findings, {}
        for finding in snapshot.findings:
            if finding.raised_at is None:
                continue
            key, now = (finding.id, finding.raised_at), _marks(finding)
            self._findings[key] = now
            was = before.get(key)
            if was is None and finding.raised_at >= snapshot.info.started:
                yield _happening("raised", finding, finding.raised_at)
                was = ("firing", *now[1:])
            if was is not None and was != now:
                word = "resolved" if finding.state == "resolved" else "updated"
                yield _happening(word, finding, finding.resolved_at or snapshot.now)

    def of_actions(self, listed: Iterable[Mapping[str, Any]]) -> Iterator[Happening]:
        """Actions whose state changed since the last call, oldest first."""
        states = {one["plan"]["id"]: one["state"] for one in listed}
        if self._actions is not None:
            for one in reversed(list(listed)):
                if self._actions.get(one["plan"]["id"]) != one["state"]:
                    yield _action(one)
        self._actions = states


def _marks(finding: Finding) -> tuple[Value, ...]:
    said = finding.acknowledged
    marks = (finding.state, finding.cause, finding.severity, finding.explained_by)
    return (*marks, said.by if said else "")


def _happening(word: str, finding: Finding, time: float) -> Happening:
    found: dict[str, Value] = {
        "gpudiag.finding.id": finding.id,
        "gpudiag.finding.state": finding.state,
        "gpudiag.symptom": finding.symptom,
        "gpudiag.cause": finding.cause,
        "gpudiag.confidence": finding.confidence,
        "gpudiag.severity": finding.severity,
        "gpudiag.runbook": finding.runbook,
        **of_subject(finding.subject),
    }
    if finding.explained_by:
        found["gpudiag.finding.explained_by"] = finding.explained_by
    if finding.acknowledged:
        found["gpudiag.finding.acknowledged_by"] = finding.acknowledged.by
    if word == "resolved":
        found["gpudiag.finding.reason"] = finding.reason
    severity = INFO if word == "resolved" else SEVERITIES[finding.severity]
    return Happening(f"gpudiag.finding.{word}", time, severity, finding.summary, found)


def of_subject(subject: Iterable[tuple[str, str]]) -> dict[str, Value]:
    """A subject's pairs as attributes; ranks and process ids are numbers."""
    found: dict[str, Value] = {}
    for key, value in subject:
        number = key in {"rank", "pid"} and value.isdecimal()
        found[_SUBJECT.get(key, f"gpudiag.{key}")] = int(value) if number else value
        if key == "uuid":
            found["hw.type"] = "gpu"
    return found


def _action(one: Mapping[str, Any]) -> Happening:
    plan, state = one["plan"], one["state"]
    found: dict[str, Value] = {
        "gpudiag.action.id": plan["id"],
        "gpudiag.action.name": plan["action"],
        "gpudiag.action.target": plan["target"],
        "gpudiag.action.outcome": state,
        "gpudiag.finding.id": plan["finding"],
        **of_subject(plan["subject"].items()),
    }
    severity = WARN if state in _BAD else INFO
    body = f"{plan['action']} at {plan['target']}: {state}"
    return Happening("gpudiag.action", one["at"], severity, body, found)
