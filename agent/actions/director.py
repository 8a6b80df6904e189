"""The one that acts: a plan from each finding, the guard's word on it, and the lever pulled."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from gpudiag.agent.actions import course, guard
from gpudiag.agent.actions.contract import SPENDS, Ending, Lease, Lever, Plan
from gpudiag.agent.actions.following import Follower
from gpudiag.agent.actions.journal import Journal
from gpudiag.agent.actions.ledger import Entry, Malformed
from gpudiag.agent.actions.planning import not_to_act_on, plan_for, target_of
from gpudiag.agent.actions.policy import Ladder, Policy
from gpudiag.agent.actions.pulling import pulled
from gpudiag.agent.actions.world import World
from gpudiag.agent.findings.finding import Finding

Mode = Literal["off", "dry-run", "approve", "auto"]

LEASE_SECONDS = 900.0
"""At least this long no other agent may act on the target: the longest promise as shipped."""

_STATES: Mapping[Ending, Literal["done", "refused", "failed"]] = {
    Ending.DONE: "done",
    Ending.REFUSED: "refused",
    Ending.FAILED: "failed",
}


@dataclass(frozen=True, slots=True)
class Settings:
    """How far the director may go on its own, and for which node."""

    mode: Mode
    node: str
    allowance: guard.Allowance = field(default_factory=guard.Allowance)


class Director:
    """One per agent, driven by `tick` from one thread; `approve` and `deny` come from any."""

    def __init__(
        self,
        settings: Settings,
        policy: Policy,
        levers: Mapping[str, Lever],
        journal: Journal,
        lease: Lease,
        world: World,
    ) -> None:
        self._settings = settings
        self._policy = policy
        self._levers = levers
        self._journal = journal
        self._lease = lease
        self._world = world
        self._follower = Follower(journal, levers, lease, world, settings.allowance)
        self._agreed: dict[str, tuple[str, int]] = {}

    def tick(self) -> None:
        """Follow what was done, then take at most one step for each finding."""
        if self._settings.mode == "off":
            return
        firing = [f for f in self._world.findings() if f.state == "firing"]
        self._count(firing)
        try:
            self._turn(firing)
        except (Malformed, OSError) as error:
            self._journal.warn_once("ledger", f"nothing is done: {error}")

    def approve(self, plan: str, actor: str) -> bool:
        """A person says yes to a plan that waits; False where none does."""
        return self._answer(plan, actor, "approved")

    def deny(self, plan: str, actor: str) -> bool:
        """A person says no: this finding is left to them."""
        return self._answer(plan, actor, "denied")

    def _answer(self, plan: str, actor: str, said: Literal["approved", "denied"]) -> bool:
        for entry in self._journal.ledger.entries():
            if entry.plan.id == plan and entry.state == "waiting":
                self._journal.note(entry.plan, said, "a person said so", actor)
                self._journal.change(entry, state=said, actor=actor)
                return True
        return False

    def _turn(self, firing: Sequence[Finding]) -> None:
        self._follower.settle()
        self._follower.follow({finding.id: finding for finding in firing})
        for finding in firing:
            if ladder := self._ladder(finding):
                self._consider(finding, ladder)

    def _ladder(self, finding: Finding) -> Ladder:
        """The policy's, without those steps that only look or tell and cannot be taken here."""
        return tuple(
            step
            for step in self._policy.ladder(finding.symptom, finding.cause)
            if step.rung in SPENDS
            or (step.action in self._levers and target_of(finding, step.action, "-"))
        )

    def _count(self, firing: Iterable[Finding]) -> None:
        agreed = {}
        for finding in firing:
            if not not_to_act_on(finding):
                cause, times = self._agreed.get(finding.id, (finding.cause, 0))
                agreed[finding.id] = (finding.cause, times + 1 if cause == finding.cause else 1)
        self._agreed = agreed

    def _consider(self, finding: Finding, ladder: Ladder) -> None:
        now, entries = self._world.now(), self._journal.ledger.entries()
        past = course.episode(finding, entries)
        upcoming = course.next_step(past, now)
        if upcoming is None:
            return
        node, step, attempt = self._settings.node, upcoming.step, upcoming.attempt
        plan = plan_for(finding, ladder, step, attempt, node, now)
        if isinstance(plan, str):
            self._journal.warn_once(finding.id, f"{finding.id} is left to people: {plan}")
            return
        known = next((entry for entry in past if entry.plan.id == plan.id), None)
        plan = known.plan if known else plan
        facts = self._facts(plan, ladder[step].hold, entries)
        if why := guard.refusal(plan, facts, self._settings.allowance):
            self._journal.note_once(plan, "refused", why)
        else:
            self._decide(plan, finding, known)

    def _decide(self, plan: Plan, finding: Finding, known: Entry | None) -> None:
        mode = self._settings.mode
        if mode == "dry-run":
            self._journal.note_once(plan, "dry_run", plan.reason)
        elif mode == "approve" and (known is None or known.state == "waiting"):
            if known is None and self._reserve(plan, finding, "waiting"):
                self._journal.note(plan, "waiting", plan.reason)
        elif why := self._last_doubts(plan):
            self._journal.note_once(plan, "refused", why)
        elif known is not None:
            self._carry_out(self._journal.change(known, state="reserved"))
        elif entry := self._reserve(plan, finding, "reserved"):
            self._carry_out(entry)

    def _reserve(
        self, plan: Plan, finding: Finding, state: Literal["waiting", "reserved"]
    ) -> Entry | None:
        now = self._world.now()
        entry = Entry(plan=plan, state=state, at=now, severity=finding.severity)
        return entry if self._journal.ledger.add(entry) else None

    def _carry_out(self, entry: Entry) -> None:
        self._journal.note(entry.plan, "begun", entry.plan.reason, entry.actor)
        entry = self._journal.change(entry, state="started")
        result = pulled(self._levers[entry.plan.action].do, entry.plan)
        ended, now = _STATES[result.ending], self._world.now()
        try:
            # Told first: a kill in between has it told twice, and never not at all.
            self._journal.note(entry.plan, ended, result.detail, entry.actor)
        finally:
            self._journal.change(entry, state=ended, ended_at=now, detail=result.detail)
        self._follower.trip()

    def _last_doubts(self, plan: Plan) -> str:
        """Asked at the last moment: the world may have moved since the rules ran."""
        lever = self._levers.get(plan.action)
        if lever is None:
            return f"{plan.action} is not set up on this agent"
        if not self._lease.hold(plan.target, max(LEASE_SECONDS, plan.promise)):
            return f"another agent holds the lease on {plan.target}, or nobody can tell"
        fresh = self._world.recheck(plan.finding)
        if fresh is None or fresh.cause != plan.cause:
            return "the finding no longer stands as it did"
        return not_to_act_on(fresh) or lever.unready(plan)

    def _facts(self, plan: Plan, hold: int, entries: Sequence[Entry]) -> guard.Circumstances:
        now = self._world.now()
        return guard.Circumstances(
            now=now,
            agreed=self._agreed.get(plan.finding, ("", 0))[1],
            hold=hold,
            input_age=self._world.input_age(),
            entries=entries,
            breaker=self._journal.ledger.breaker(),
            opted_out=self._world.opted_out(plan),
            maintenance=self._world.maintenance(now),
        )
