"""After an action: did the symptom clear, under load, in the time that was promised?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from gpudiag.agent.actions import course, guard
from gpudiag.agent.actions.contract import Ending, Lease, Lever
from gpudiag.agent.actions.journal import Journal
from gpudiag.agent.actions.ledger import Entry
from gpudiag.agent.actions.pulling import pulled
from gpudiag.agent.actions.world import World
from gpudiag.agent.findings.finding import Finding

APPROVAL_SECONDS = 3600.0
"""How long a plan waits for a person: after an hour the incident is another one."""

_WHY: Mapping[course.Verdict, str] = {
    "verified": "the symptom stayed away under load",
    "again": "the symptom came back",
    "not_verified": "the symptom was not seen to clear in the time promised",
    "worse": "the finding became critical after it",
}

LOST = "the job did not go on from its newest checkpoint"


class Follower:
    """Watches what was done until it is known to have helped or not, and takes back what may go."""

    def __init__(
        self,
        journal: Journal,
        levers: Mapping[str, Lever],
        lease: Lease,
        world: World,
        allowance: guard.Allowance,
    ) -> None:
        self._journal = journal
        self._levers = levers
        self._lease = lease
        self._world = world
        self._allowance = allowance

    def settle(self) -> None:
        """What was under way when the agent died is never begun a second time.

        An action that works on the symptom is watched as if it was done; others count as failed.
        """
        why = "the agent ended while this was under way: whether it was done is not known"
        for entry in self._journal.ledger.entries():
            if entry.state == "started":
                ended: Literal["done", "failed"]
                ended = "done" if course.verifies(entry) else "failed"
                self._journal.note(entry.plan, ended, why)
                self._journal.change(entry, state=ended, ended_at=self._world.now(), detail=why)

    def follow(self, standing: Mapping[str, Finding]) -> None:
        """One round over all that is open or in force; `standing` are the firing findings by id."""
        for entry in self._journal.ledger.entries():
            finding = standing.get(entry.plan.finding)
            if entry.state in {"waiting", "approved", "reserved"}:
                self._wait(entry, finding)
            elif entry.state == "done" and course.verifies(entry):
                self._judge(entry, finding, standing)
        for entry in self._journal.ledger.entries():
            if entry.undone_at is None and (why := _owed(entry, standing)):
                self._take_back(entry, why)

    def trip(self) -> None:
        """Open the breaker where too much of what was done did not help."""
        now, allowance = self._world.now(), self._allowance
        bad = guard.bad_endings(self._journal.ledger.entries(), now, allowance.window)
        if len(bad) >= allowance.trips and not self._journal.ledger.breaker():
            why = f"{len(bad)} actions in {allowance.window / 3600:.0f} h failed or did not help"
            self._journal.note(bad[-1].plan, "breaker", why)
            self._journal.ledger.open_breaker(why, now)

    def _wait(self, entry: Entry, finding: Finding | None) -> None:
        late = entry.state == "waiting" and self._world.now() > entry.at + APPROVAL_SECONDS
        why = "nobody answered in time" if late else "the finding is gone" if not finding else ""
        if why:
            self._journal.note(entry.plan, "denied", why)
            self._journal.change(entry, state="denied", detail=why)

    def _judge(
        self, entry: Entry, finding: Finding | None, standing: Mapping[str, Finding]
    ) -> None:
        now = self._world.now()
        if course.lost_work(entry, standing.values()):
            self._conclude(entry, "worse", LOST)
            return
        loaded = self._world.loaded(entry.plan, entry.ended_at or entry.at)
        verdict = course.outcome(entry, finding, now, loaded)
        if verdict == "cleared":
            self._journal.change(entry, cleared_at=now)
        elif verdict != "wait":
            self._conclude(entry, verdict, _WHY[verdict])

    def _conclude(
        self,
        entry: Entry,
        verdict: Literal["again", "verified", "not_verified", "worse"],
        why: str,
    ) -> None:
        ended: Literal["verified", "not_verified", "worse"]
        ended = "not_verified" if verdict == "again" else verdict
        self._journal.note(entry.plan, ended, why)
        self._journal.change(entry, state=ended, detail=why)
        self._lease.release(entry.plan.target)
        self.trip()

    def _take_back(self, entry: Entry, why: str) -> None:
        lever = self._levers.get(entry.plan.action)
        if lever is None or not lever.reversible:
            return
        result = pulled(lever.undo, entry.plan)
        if result.ending is not Ending.DONE:
            self._journal.warn_once(f"undo {entry.plan.id}", f"not yet taken back: {result.detail}")
            return
        self._journal.note(entry.plan, "undone", why)
        self._journal.change(entry, undone_at=self._world.now())


def _owed(entry: Entry, standing: Mapping[str, Finding]) -> str:
    """Why the action must be taken back now, where it can be; "" where it may stay."""
    if entry.state == "worse" or (entry.state == "not_verified" and not entry.plan.carry):
        return entry.detail
    gone = entry.plan.finding not in standing
    return "the symptom has cleared" if entry.in_force and gone else ""
