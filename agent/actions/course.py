"""How an episode goes on: which step is next, and what became of the step before. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from gpudiag.agent.actions.contract import SPENDS
from gpudiag.agent.actions.ledger import Entry
from gpudiag.agent.findings.finding import Finding

SETTLE_SECONDS = 60.0
"""How long a symptom must stay away before an action is said to have helped: one clear time of
the rules' own default."""

WENT_BACK = "resume-not-effective"
"""The cause by which the rules say that a job did not go on from its newest checkpoint."""

RETRIES = 3
RETRY_SECONDS = 30.0
"""A step that was refused is tried again after 30, 60 and 120 s, then given up."""


@dataclass(frozen=True, slots=True)
class Next:
    """The step to take, and which attempt at it."""

    step: int
    attempt: int


def episode(finding: Finding, entries: Iterable[Entry]) -> list[Entry]:
    """What was done about this finding since it fired, oldest first."""
    since = finding.raised_at or finding.since
    return [e for e in entries if e.plan.finding == finding.id and e.plan.made_at >= since]


def next_step(past: Sequence[Entry], now: float) -> Next | None:
    """The step that comes after those taken; None while one is open, and once one has helped."""
    if not past:
        return Next(0, 0)
    last = past[-1]
    step, attempt = last.plan.step, last.plan.attempt
    if last.state in {"waiting", "approved", "reserved"}:
        return Next(step, attempt)
    if last.state == "refused":
        if attempt + 1 >= RETRIES:
            return Next(step + 1, 0)
        due = last.at + RETRY_SECONDS * 2**attempt
        return Next(step, attempt + 1) if now >= due else None
    if last.open or last.state in {"verified", "denied", "worse"}:
        return None
    return Next(step + 1, 0)


Verdict = Literal["wait", "cleared", "again", "verified", "not_verified", "worse"]


def outcome(entry: Entry, standing: Finding | None, now: float, loaded: bool | None) -> Verdict:
    """What became of a done action.

    `standing` is its finding as it is now, None where it no longer fires; `loaded` whether the
    subject has worked since, None where nobody can tell.
    """
    if standing is None:
        return _once_gone(entry, now, loaded)
    if standing.stale_since is None and entry.cleared_at is not None:
        return "again"
    if standing.stale_since is None and entry.severity != "critical" == standing.severity:
        return "worse"
    return "not_verified" if now >= _promised(entry) else "wait"


def lost_work(entry: Entry, standing: Iterable[Finding]) -> bool:
    """Whether a job that was restarted is found to repeat steps that it had done and saved."""
    job = dict(entry.plan.subject).get("job")
    if job is None or entry.plan.rung != "restart":
        return False
    return any(
        found.cause == WENT_BACK != entry.plan.cause
        and dict(found.subject).get("job") == job
        and (found.id == entry.plan.finding or (found.raised_at or 0.0) >= entry.plan.made_at)
        for found in standing
    )


def _once_gone(entry: Entry, now: float, loaded: bool | None) -> Verdict:
    if entry.cleared_at is None:
        return "cleared"
    if loaded is not False and now >= entry.cleared_at + SETTLE_SECONDS:
        return "verified"
    # No load came to prove it: after four times the promise nobody waits any longer.
    return "not_verified" if now >= _promised(entry) + 3 * entry.plan.promise else "wait"


def _promised(entry: Entry) -> float:
    return (entry.ended_at or entry.at) + entry.plan.promise


def verifies(entry: Entry) -> bool:
    """Whether its effect on the symptom is watched: collecting evidence and telling have none."""
    return entry.plan.rung in SPENDS
