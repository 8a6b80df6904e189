"""What an action is: its plan, the lever that carries it out, and what may come of it."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Protocol

import msgspec

from gpudiag.agent.rules.contract import Rung, Subject

RUNGS: Mapping[str, Rung] = {
    "snapshot": "observe",
    "dump_stacks": "observe",
    "checkpoint": "observe",
    "mark_node": "notify",
    "gc": "degrade",
    "empty_cache": "degrade",
    "set_memory_fraction": "degrade",
    "micro_batch": "degrade",
    "flush_cache": "degrade",
    "pause_server": "degrade",
    "gateway": "degrade",
    "command": "degrade",
    "unready": "drain",
    "unload_model": "drain",
    "checkpoint_and_exit": "restart",
    "restart_workers": "restart",
    "restart_container": "restart",
    "restart_unit": "restart",
    "evict_pod": "restart",
}
"""Every action there is, and the rung of the ladder it stands on."""

SPENDS: frozenset[Rung] = frozenset({"degrade", "drain", "restart"})
"""Rungs that count against the budget: the others change nothing."""


HANDS_OFF = ("gpudiag/actions", "off")
"""The label, and its value, by which a pod says that nothing may be done to it."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """One action, decided and not yet done: dry-run prints it, auto carries out the very same.

    `id` is deterministic (finding, when it fired, step of the ladder, attempt), so that a plan made
    again after a crash is known to be the same. `target` is what must not be acted on twice at a
    time (`job=llama`, `server=chat`); `carry` leaves it in force while the next step is taken;
    `promise` is the time in seconds within which the symptom must clear. Times are epoch seconds.
    """

    id: str
    finding: str
    symptom: str
    cause: str
    subject: Subject
    target: str
    action: str
    rung: Rung
    args: Mapping[str, str | float | int | bool] = {}
    carry: bool = False
    promise: float
    step: int
    attempt: int
    reason: str
    made_at: float


class Ending(StrEnum):
    """How carrying out a plan ended; only REFUSED leaves the budget untouched."""

    DONE = "done"
    REFUSED = "refused"
    """Provably not accepted: nothing happened, it may be tried again later."""
    FAILED = "failed"
    """Begun and did not work, or nobody can tell: counted as used, never repeated blindly."""


class Result(msgspec.Struct, frozen=True):
    """What a lever reports: how it ended and one sentence a person reads, without secrets."""

    ending: Ending
    detail: str


class Lever(Protocol):
    """One kind of action on one kind of target; blocking, with its own time limit, never raising.

    `do` and `undo` must be safe to call again with the same plan id after a crash.
    """

    name: str
    rung: Rung
    reversible: bool

    def unready(self, plan: Plan, /) -> str:
        """Why the lever cannot be pulled here and now; "" where it can. Asks, changes nothing."""

    def do(self, plan: Plan, /) -> Result: ...

    def undo(self, plan: Plan, /) -> Result: ...


class Lease(Protocol):
    """The right to act on a target, held by one agent at a time."""

    def hold(self, target: str, seconds: float) -> bool:
        """Take or renew it for `seconds`; False where another holds it or nobody can tell."""

    def release(self, target: str) -> None: ...
