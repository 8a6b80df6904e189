"""What a dry run would have done, in the form in which the API lists what was done."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from gpudiag.agent.actions.audit import Line
from gpudiag.agent.actions.contract import Plan
from gpudiag.agent.actions.rehearsal import Rehearsal

KEPT = 200


class Planned:
    """The newest plans of a live dry run, by the audit lines that tell of them; in memory alone:
    a plan whose finding still stands is made and told again after a restart.
    """

    def __init__(self) -> None:
        self._plans: dict[str, Plan] = {}

    def __call__(self, line: Line) -> None:
        """Take one audit line; of a plan that is told again the first is kept."""
        if line.decision != "dry_run" or line.plan.id in self._plans:
            return
        rest = list(self._plans.items())[-KEPT + 1 :]
        self._plans = {**dict(rest), line.plan.id: line.plan}

    def shown(self) -> list[dict[str, Any]]:
        """As the API lists actions, newest first."""
        return _shown(self._plans.values())


class Rehearsed:
    """Acting as far as a replay has it: its plans to look at, and nothing to be told."""

    token = ""
    workload = None

    def __init__(self, rehearsal: Rehearsal) -> None:
        self._rehearsal = rehearsal

    def shown(self) -> dict[str, Any]:
        """The very plans that `gpudiag replay` prints, times as recorded."""
        return {"mode": "dry-run", "breaker": "", "actions": _shown(self._rehearsal.plans)[:KEPT]}

    def approve(self, _plan: str, _actor: str) -> bool:
        """Nothing waits."""
        return False

    def deny(self, _plan: str, _actor: str) -> bool:
        """Nothing waits."""
        return False

    def reset_breaker(self, _actor: str) -> bool:
        """It is closed."""
        return False


def plain(plan: Plan) -> dict[str, Any]:
    """A plan as JSON has it, its subject as a map."""
    return {**msgspec.to_builtins(plan), "subject": dict(plan.subject)}


def _shown(plans: Iterable[Plan]) -> list[dict[str, Any]]:
    listed = [
        {
            "plan": plain(plan),
            "state": "dry_run",
            "at": plan.made_at,
            "detail": plan.reason,
            "actor": "gpudiag",
        }
        for plan in tuple(plans)
    ]
    return listed[::-1]
