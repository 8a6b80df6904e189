"""Which actions may follow which cause, and in what order: the shipped table under the config."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files

import msgspec

from gpudiag.agent.actions.contract import RUNGS
from gpudiag.agent.rules.contract import Rung
from gpudiag.probes.errors import UsageError

Argument = str | float | int | bool


class Step(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One rung taken: the action, its promise in seconds, and how sure one must be before.

    `hold` is how many evaluations in a row must agree; `carry` leaves a reversible action in force
    while the next step is taken.
    """

    action: str
    promise: float
    hold: int = 3
    carry: bool = False
    args: Mapping[str, Argument] = {}

    @property
    def rung(self) -> Rung:
        """How far it goes."""
        return RUNGS[self.action]


Ladder = tuple[Step, ...]


class Policy(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Ladders by name, and the name for each `symptom/cause`; `symptom/*` stands for the rest."""

    ladders: Mapping[str, Ladder]
    causes: Mapping[str, str]

    def ladder(self, symptom: str, cause: str) -> Ladder:
        """The steps for a cause, none where the policy leaves it to people."""
        name = self.causes.get(f"{symptom}/{cause}") or self.causes.get(f"{symptom}/*", "")
        return self.ladders.get(name, ())

    def under(self, ladders: Mapping[str, Ladder], causes: Mapping[str, str]) -> Policy:
        """This policy with some ladders and causes put over it; raises `UsageError` on a slip."""
        merged = Policy({**self.ladders, **ladders}, {**self.causes, **causes})
        merged.check()
        return merged

    def check(self) -> None:
        """Raises `UsageError` where a name leads nowhere."""
        for cause, name in self.causes.items():
            if name not in self.ladders:
                known = ", ".join(sorted(self.ladders))
                raise UsageError(f"{cause}: no such ladder: {name!r}; there are {known}")
        for name, steps in self.ladders.items():
            for step in steps:
                if step.action not in RUNGS:
                    known = ", ".join(sorted(RUNGS))
                    raise UsageError(f"ladder {name}: no action {step.action!r}; there are {known}")


@cache
def shipped() -> Policy:
    """The policy that comes with gpudiag."""
    text = files("gpudiag.agent.actions").joinpath("policy.toml").read_text("utf-8")
    policy = msgspec.toml.decode(text, type=Policy)
    policy.check()
    return policy
