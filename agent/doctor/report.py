"""What doctor says: a line per check, and the exit code that follows from all of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from gpudiag.agent.findings.finding import Finding
from gpudiag.probes.catalog import Severity

State = Literal["ok", "note", "warning", "critical", "unknown", "absent"]

WORDS: dict[State, str] = {"unknown": "cannot tell", "absent": "not here"}
"""How a state is written for people; the others are words already."""

_RANKS: tuple[State, ...] = ("ok", "note", "warning", "critical")
_STATES: dict[Severity, State] = {"info": "note", "warning": "warning", "critical": "critical"}


@dataclass(frozen=True, slots=True)
class Line:
    """One check: where it belongs, how it stands, what was seen, and what to do about it."""

    area: str
    check: str
    state: State
    seen: str
    todo: str = ""


def judged(line: Line, findings: Iterable[Finding]) -> Line:
    """The line under what the rules found about the same thing: the worse state, its next step."""
    worst = max(findings, key=lambda f: (rank(_state(f)), f.confidence), default=None)
    if worst is None or rank(_state(worst)) <= rank(line.state):
        return line
    todo = worst.actions[0].text if worst.actions else f"gpudiag runbook '{worst.runbook}'"
    return Line(line.area, line.check, _state(worst), f"{worst.summary} {line.seen}".strip(), todo)


def _state(finding: Finding) -> State:
    # What has not lasted yet, and what another finding explains, is told but raises nothing.
    if finding.state != "firing" or finding.explained_by:
        return "note"
    return _STATES[finding.severity]


def rank(state: State) -> int:
    """How bad a state is; what is not here or cannot be told is no worse than ok."""
    return _RANKS.index(state) if state in _RANKS else 0


def exit_code(lines: Iterable[Line], findings: Iterable[Finding], fail_on: Severity) -> int:
    """1 where a line or a finding is at or above `fail_on`, else 0."""
    states = [line.state for line in lines] + [_state(finding) for finding in findings]
    return int(any(rank(state) >= rank(_STATES[fail_on]) for state in states))
