"""Readiness and liveness of the workload beside this agent, as its pod's probes ask for them.

The pod's own probes point at the agent (`/workload/readyz`, `/workload/livez`): saying no there
sheds load or has the kubelet restart that one container, without any right in the cluster.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import msgspec

from gpudiag.agent import files
from gpudiag.agent.actions.contract import RUNGS, Ending, Plan, Result
from gpudiag.agent.rules.contract import Rung

RESTART_SECONDS = 90.0
"""How long liveness says no at most: three failures at the usual period of 10 s, three times
over."""

Sockets = Callable[[], frozenset[str]]
"""The sockets that the workload listens on; each of its processes opens others than the last."""


class Flags(msgspec.Struct, frozen=True):
    """What the probes are told: by plan id, why not ready; until when (epoch seconds) not alive.

    `before` are the sockets of the process that must go.
    """

    unready: dict[str, str] = {}
    not_alive_until: float = 0.0
    before: tuple[str, ...] = ()


class Workload:
    """The flags, in a file so that an agent that restarts goes on saying the same.

    `server` is the name of the one whose pod asks. Where its `sockets` are not known, a restart is
    never seen, and liveness says no for the whole of `RESTART_SECONDS`.
    """

    def __init__(
        self, path: Path, now: Callable[[], float], server: str, sockets: Sockets = frozenset
    ) -> None:
        self.server = server
        self._path = path
        self._now = now
        self._sockets = sockets
        self._lock = threading.Lock()
        self._restarted_until = 0.0
        self._flags = self._read()

    def why_unready(self) -> str:
        """Why the workload must not get requests; "" where it may."""
        return "; ".join(self._flags.unready.values())

    def why_dead(self) -> str:
        """Why the workload must be restarted; "" where it may live, and once it has restarted."""
        if self._now() >= self._flags.not_alive_until:
            return ""
        # Told to the new process, a no has the kubelet restart that as well. Neither lock nor disk
        # is waited for here: a probe that gets no answer has failed.
        if _another(frozenset(self._flags.before), self._sockets()):
            self._restarted_until = self._flags.not_alive_until
        seen = self._restarted_until == self._flags.not_alive_until
        return "" if seen else "a restart was decided"

    def not_for(self, plan: Plan) -> str:
        """Why this pod's probes are no lever for the plan; "" where they are."""
        if plan.target == f"server={self.server}":
            return ""
        return f"the probes that ask this agent are those of {self.server}, not of {plan.target}"

    def shed(self, plan: str, why: str) -> None:
        """Say not ready from now on, for this plan."""
        with self._lock:
            unready = {**self._flags.unready, plan: why}
            self._write(msgspec.structs.replace(self._flags, unready=unready))

    def admit(self, plan: str) -> None:
        """This plan has no more against it."""
        with self._lock:
            rest = {key: why for key, why in self._flags.unready.items() if key != plan}
            self._write(msgspec.structs.replace(self._flags, unready=rest))

    def restart(self) -> None:
        """Say not alive until another process listens, for `RESTART_SECONDS` at most."""
        with self._lock:
            until, before = self._now() + RESTART_SECONDS, tuple(sorted(self._sockets()))
            self._write(Flags(self._flags.unready, until, before))

    def _read(self) -> Flags:
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=Flags)
        except (OSError, msgspec.MsgspecError):
            # Ready and alive is what a workload without gpudiag would be.
            return Flags()

    def _write(self, flags: Flags) -> None:
        files.replace(self._path, msgspec.json.encode(flags))
        self._flags = flags


def _another(before: frozenset[str], after: frozenset[str]) -> bool:
    """Whether the process that listened is gone, or one has come where none was."""
    return bool(before | after) and not before & after


class Unready:
    """Sheds load: the pod leaves its Service, requests in flight go on.

    `floor` says why no replica can be spared at the moment, "" where one can.
    """

    name = "unready"
    rung: Rung = RUNGS["unready"]
    reversible = True

    def __init__(self, workload: Workload, floor: Callable[[], str]) -> None:
        self._workload = workload
        self._floor = floor

    def unready(self, plan: Plan) -> str:
        """See `Lever`."""
        return self._workload.not_for(plan) or self._floor()

    def do(self, plan: Plan) -> Result:
        """See `Lever`."""
        self._workload.shed(plan.id, f"{plan.symptom}: {plan.cause}")
        return Result(Ending.DONE, "the readiness probe is told no")

    def undo(self, plan: Plan) -> Result:
        """See `Lever`."""
        self._workload.admit(plan.id)
        return Result(Ending.DONE, "the readiness probe is told yes again")


class RestartContainer:
    """Has the kubelet restart the workload's container by its liveness probe."""

    name = "restart_container"
    rung: Rung = RUNGS["restart_container"]
    reversible = False

    def __init__(self, workload: Workload) -> None:
        self._workload = workload

    def unready(self, plan: Plan) -> str:
        """See `Lever`."""
        return self._workload.not_for(plan) or self._workload.why_dead()

    def do(self, _plan: Plan) -> Result:
        """See `Lever`."""
        self._workload.restart()
        most = f"{RESTART_SECONDS:.0f} s at most"
        return Result(Ending.DONE, f"the liveness probe is told no until it is restarted, {most}")

    def undo(self, _plan: Plan) -> Result:
        """A restart cannot be taken back."""
        return Result(Ending.REFUSED, "a restart cannot be taken back")
