"""What a training job can be told over its channel: all its ranks, at the same step."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from gpudiag.agent.actions.contract import RUNGS, Ending, Plan, Result
from gpudiag.agent.rules.contract import Rung
from gpudiag.probes.errors import GpudiagError

SECONDS = 120.0
"""How long ranks may take to answer: a step, and what they were asked to do at its end."""

UNDO: Mapping[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
    "micro_batch": lambda args: {"factor": 1.0 / float(args["factor"])},
    "set_memory_fraction": lambda _: {"fraction": 1.0},
}
"""The arguments that take a command back, for those that can be."""


class Answer(Protocol):
    """What one rank said."""

    @property
    def rank(self) -> int: ...

    @property
    def ok(self) -> bool: ...

    @property
    def detail(self) -> str: ...


class Ranks(Protocol):
    """The way down to the ranks of this node; raises `GpudiagError` where nothing was sent."""

    def command(
        self, job: str, name: str, args: Mapping[str, Any], *, timeout: float
    ) -> Sequence[Answer]: ...


class TrainingLever:
    """One command to all ranks of a job; done only where every rank says so."""

    def __init__(self, name: str, ranks: Ranks) -> None:
        self.name = name
        self.rung: Rung = RUNGS[name]
        self.reversible = name in UNDO
        self._ranks = ranks

    def unready(self, plan: Plan) -> str:
        """See `Lever`; a blocked job answers no ping from its steps, but its helper thread does."""
        try:
            answers = self._ranks.command(_job(plan), "ping", {}, timeout=5.0)
        except GpudiagError as error:
            return str(error)
        silent = [answer.rank for answer in answers if not answer.ok]
        return f"ranks {silent} of {_job(plan)} do not answer" if silent else ""

    def do(self, plan: Plan) -> Result:
        """See `Lever`."""
        return self._send(plan, plan.args)

    def undo(self, plan: Plan) -> Result:
        """See `Lever`."""
        return self._send(plan, UNDO[self.name](plan.args))

    def _send(self, plan: Plan, args: Mapping[str, Any]) -> Result:
        try:
            answers = self._ranks.command(_job(plan), self.name, args, timeout=SECONDS)
        except GpudiagError as error:
            return Result(Ending.REFUSED, str(error))
        failed = [f"rank {a.rank}: {a.detail or 'no'}" for a in answers if not a.ok]
        if failed:
            return Result(Ending.FAILED, "; ".join(failed)[:500])
        return Result(Ending.DONE, f"{self.name} taken by {len(answers)} ranks of {_job(plan)}")


def _job(plan: Plan) -> str:
    return dict(plan.subject).get("job", "")
