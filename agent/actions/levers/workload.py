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
"""How long liveness says no: three failures at the usual period of 10 s, three times over."""


class Flags(msgspec.Struct, frozen=True):
    """What the probes are told: by plan id, why not ready; until when (epoch seconds) not alive."""

    unready: dict[str, str] = {}
    not_alive_until: float = 0.0


class Workload:
    """The flags, in a file so that an agent that restarts goes on saying the same."""

    def __init__(self, path: Path, now: Callable[[], float]) -> None:
        self._path = path
        self._now = now
        self._lock = threading.Lock()
        self._flags = self._read()

    def why_unready(self) -> str:
        """Why the workload must not get requests; "" where it may."""
        return "; ".join(self._flags.unready.values())

    def why_dead(self) -> str:
        """Why the workload must be restarted; "" where it may live."""
        return "a restart was decided" if self._now() < self._flags.not_alive_until else ""

    def shed(self, plan: str, why: str) -> None:
        """Say not ready from now on, for this plan."""
        with self._lock:
            self._write(Flags({**self._flags.unready, plan: why}, self._flags.not_alive_until))

    def admit(self, plan: str) -> None:
        """This plan has no more against it."""
        with self._lock:
            rest = {key: why for key, why in self._flags.unready.items() if key != plan}
            self._write(Flags(rest, self._flags.not_alive_until))

    def restart(self) -> None:
        """Say not alive for `RESTART_SECONDS`."""
        with self._lock:
            self._write(Flags(self._flags.unready, self._now() + RESTART_SECONDS))

    def _read(self) -> Flags:
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=Flags)
        except (OSError, msgspec.MsgspecError):
            # Ready and alive is what a workload without gpudiag would be.
            return Flags()

    def _write(self, flags: Flags) -> None:
        files.replace(self._path, msgspec.json.encode(flags))
        self._flags = flags


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

    def unready(self, _plan: Plan) -> str:
        """See `Lever`."""
        return self._floor()

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

    def unready(self, _plan: Plan) -> str:
        """See `Lever`."""
        return self._workload.why_dead()

    def do(self, _plan: Plan) -> Result:
        """See `Lever`."""
        self._workload.restart()
        return Result(Ending.DONE, f"the liveness probe is told no for {RESTART_SECONDS:.0f} s")

    def undo(self, _plan: Plan) -> Result:
        """A restart cannot be taken back."""
        return Result(Ending.REFUSED, "a restart cannot be taken back")
