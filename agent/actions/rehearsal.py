"""What a dry run says while a recording is played: the live director, with nothing to pull."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gpudiag.agent.actions.audit import Line
from gpudiag.agent.actions.contract import RUNGS, Ending, Lever, Plan, Result
from gpudiag.agent.actions.director import Director, Settings
from gpudiag.agent.actions.journal import Journal
from gpudiag.agent.actions.leases import NoLease
from gpudiag.agent.actions.ledger import Ledger
from gpudiag.agent.actions.policy import Policy, shipped
from gpudiag.agent.findings.finding import Finding

NODE = "recorded"
"""What the node is called of which a recording does not say the name."""


class Rehearsal:
    """A director in dry-run, driven by `turn`; `plans` is what it would have carried out.

    Of each time a finding fires it is the first step: what would follow depends on what came of it.
    All levers are taken to be there, and nobody to object.
    """

    def __init__(self, policy: Policy | None = None) -> None:
        self.plans: list[Plan] = []
        self._stage = _Stage()
        journal = _Quiet(Ledger(None), self, self._stage.now)
        levers: Mapping[str, Lever] = {name: _Unpulled(name) for name in RUNGS}
        settings = Settings("dry-run", NODE)
        self._director = Director(
            settings, policy or shipped(), levers, journal, NoLease(), self._stage
        )

    def turn(self, now: float, findings: Sequence[Finding]) -> None:
        """One evaluation has ended; `now` is the recording's time in epoch seconds."""
        firing = [finding for finding in findings if finding.state == "firing"]
        # Once more when nothing fires any longer: agreement is counted anew.
        if firing or self._stage.firing:
            self._stage.time, self._stage.firing = now, firing
            self._director.tick()

    def write(self, line: Line) -> None:
        """Take one audit line; refusals are no plans."""
        if line.decision == "dry_run":
            self.plans.append(line.plan)


class _Quiet(Journal):
    """What is left to people has no plan, and a recording's reader is told only of plans."""

    def warn_once(self, about: str, text: str) -> None:
        pass


class _Stage:
    """A `World` that is what the recording says it is."""

    def __init__(self) -> None:
        self.time = 0.0
        self.firing: list[Finding] = []

    def now(self) -> float:
        return self.time

    def findings(self) -> Sequence[Finding]:
        return self.firing

    def input_age(self) -> float:
        return 0.0

    def recheck(self, finding: str) -> Finding | None:
        return next((f for f in self.firing if f.id == finding), None)

    def loaded(self, _plan: Plan, _since: float) -> bool | None:
        return None

    def opted_out(self, _plan: Plan) -> str:
        return ""

    def maintenance(self, _now: float) -> str:
        return ""


class _Unpulled:
    """A lever that is there, and that no dry run pulls."""

    reversible = False

    def __init__(self, name: str) -> None:
        self.name, self.rung = name, RUNGS[name]

    def unready(self, _plan: Plan) -> str:
        return ""

    def do(self, plan: Plan) -> Result:
        return Result(Ending.REFUSED, f"{plan.action} is only rehearsed")

    def undo(self, plan: Plan) -> Result:
        return Result(Ending.REFUSED, f"{plan.action} is only rehearsed")
