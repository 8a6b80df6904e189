"""Whether a plan may be carried out now: a pure decision over what the ledger remembers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from gpudiag.agent.actions.contract import SPENDS, Plan
from gpudiag.agent.actions.ledger import USED, Entry


@dataclass(frozen=True, slots=True)
class Allowance:
    """How much may be done in any `window` seconds, and how soon again at one target.

    The defaults follow what others settled on after remediation loops (NVSentinel's attempt
    limit, draino's 10 min between drains, node-problem-detector's cooldown): few, far apart.
    `cooldown` is seconds between two spending actions at one target; `trips` is how many bad
    endings in the window open the breaker.
    """

    window: float = 86400.0
    target: int = 6
    job: int = 6
    node: int = 12
    restarts: int = 2
    cooldown: float = 600.0
    trips: int = 3


@dataclass(frozen=True, slots=True)
class Circumstances:
    """All that the decision rests on besides the plan; texts are reasons to stop, "" for none."""

    now: float
    agreed: int
    hold: int
    input_age: float
    entries: Sequence[Entry]
    breaker: str = ""
    opted_out: str = ""
    maintenance: str = ""


MAX_INPUT_AGE = 30.0
"""Seconds since the last evaluation: six missed ones, and nobody knows how it stands."""


def refusal(plan: Plan, facts: Circumstances, allowance: Allowance) -> str:
    """Why the plan must not be carried out now; "" where it may. The first reason found."""
    return next(filter(None, _reasons(plan, facts, allowance)), "")


def _reasons(plan: Plan, facts: Circumstances, allowance: Allowance) -> Iterator[str]:
    yield facts.opted_out
    if facts.agreed < facts.hold:
        yield f"{facts.agreed} of {facts.hold} evaluations in a row agree so far"
    if facts.input_age > MAX_INPUT_AGE:
        yield f"the findings are {facts.input_age:.0f} s old"
    if other := _taken(plan, facts.entries):
        yield f"{plan.target} is taken by {other.plan.action} ({other.state})"
    if plan.rung in SPENDS:
        yield facts.breaker and f"the breaker is open: {facts.breaker}"
        yield facts.maintenance
        yield _over_budget(plan, facts, allowance)


def _taken(plan: Plan, entries: Iterable[Entry]) -> Entry | None:
    for entry in entries:
        if entry.plan.target == plan.target and entry.open and entry.plan.id != plan.id:
            return entry
    return None


def _over_budget(plan: Plan, facts: Circumstances, allowance: Allowance) -> str:
    spent = spending(facts.entries, facts.now, allowance.window)
    spent = [entry for entry in spent if entry.plan.id != plan.id]
    at_target = [entry for entry in spent if entry.plan.target == plan.target]
    last = max(
        (began(entry) for entry in at_target if not _same_episode(entry, plan)), default=None
    )
    if last is not None and facts.now - last < allowance.cooldown:
        left = allowance.cooldown - (facts.now - last)
        return f"{plan.target} was acted on {facts.now - last:.0f} s ago: wait {left:.0f} s more"
    of_job = [entry for entry in spent if _job(entry.plan) and _job(entry.plan) == _job(plan)]
    restarts = [entry for entry in at_target if entry.plan.rung == "restart"]
    for name, used, limit in (
        (plan.target, len(at_target), allowance.target),
        (f"job {_job(plan)}", len(of_job), allowance.job),
        ("this node", len(spent), allowance.node),
        (f"restarts of {plan.target}", len(restarts), _restarts(plan, allowance)),
    ):
        if used >= limit:
            hours = allowance.window / 3600
            return f"the budget of {name} is used: {used} of {limit} in {hours:.0f} h"
    return ""


def remaining(entries: Iterable[Entry], now: float, allowance: Allowance) -> int:
    """How many spending actions this node has left in the window."""
    return max(0, allowance.node - len(spending(entries, now, allowance.window)))


def spending(entries: Iterable[Entry], now: float, window: float) -> list[Entry]:
    """The entries that count against the budget as of `now`."""
    return [
        entry
        for entry in entries
        if entry.plan.rung in SPENDS and entry.state in USED and began(entry) > now - window
    ]


def began(entry: Entry) -> float:
    """When the plan was reserved, or, once it ended, when it ended: the later of what is known."""
    return entry.ended_at if entry.ended_at is not None else entry.at


def bad_endings(entries: Iterable[Entry], now: float, window: float) -> list[Entry]:
    """Those that speak against going on: failed, made worse, or a restart that did not help."""
    return [
        entry
        for entry in spending(entries, now, window)
        if entry.state in {"failed", "worse"}
        or (entry.state == "not_verified" and entry.plan.rung == "restart")
    ]


def _same_episode(entry: Entry, plan: Plan) -> bool:
    return entry.plan.finding == plan.finding and entry.plan.step < plan.step


def _job(plan: Plan) -> str:
    return dict(plan.subject).get("job", "")


def _restarts(plan: Plan, allowance: Allowance) -> int:
    return allowance.restarts if plan.rung == "restart" else allowance.node + 1
