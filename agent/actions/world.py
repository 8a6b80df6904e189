"""What acting asks of the world outside; none of it raises."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from gpudiag.agent.actions.contract import Plan
from gpudiag.agent.findings.finding import Finding


class World(Protocol):
    """The agent around the director, or a test's."""

    def now(self) -> float:
        """Epoch seconds."""

    def findings(self) -> Sequence[Finding]:
        """As they were last saved."""

    def input_age(self) -> float:
        """Seconds since the rules last ran."""

    def recheck(self, finding: str) -> Finding | None:
        """Run the rules now, and give the finding as it then stands; None where it is gone."""

    def loaded(self, plan: Plan, since: float) -> bool | None:
        """Whether the subject has done work since that moment; None where nobody can tell."""

    def opted_out(self, plan: Plan) -> str:
        """Why a person wants this target left alone; "" where nobody said so."""

    def maintenance(self, now: float) -> str:
        """The maintenance window that `now` lies in; "" outside all."""
