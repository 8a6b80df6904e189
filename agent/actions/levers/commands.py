"""Commands that the operator listed: fixed words, no shell, nothing from labels or logs."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from gpudiag.agent.actions.contract import RUNGS, Ending, Plan, Result
from gpudiag.agent.rules.contract import Rung

ENVIRONMENT = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
"""All that a command gets to see of the agent's environment, in which secrets may stand."""

Run = Callable[[Sequence[str], float], int]


@dataclass(frozen=True, slots=True)
class Listed:
    """A command of the configuration: its words, those that take it back, its limit in seconds."""

    argv: tuple[str, ...]
    undo: tuple[str, ...] = ()
    timeout: float = 60.0


def run(argv: Sequence[str], timeout: float) -> int:
    """The exit status; raises `OSError`, or `TimeoutExpired` after the process was killed."""
    quiet = subprocess.DEVNULL
    done = subprocess.run(
        list(argv),
        stdin=quiet,
        stdout=quiet,
        stderr=quiet,
        timeout=timeout,
        env=ENVIRONMENT,
        check=False,
        close_fds=True,
    )
    return done.returncode


class Command:
    """The action `command` (or `restart_unit`): what is listed for the plan's target.

    `listed` maps a target, as `server=chat`, to its command.
    """

    def __init__(self, name: str, listed: Mapping[str, Listed], run: Run = run) -> None:
        self.name = name
        self.rung: Rung = RUNGS[name]
        self.reversible = any(command.undo for command in listed.values())
        self._listed = listed
        self._run = run

    def unready(self, plan: Plan) -> str:
        """See `Lever`."""
        if plan.target in self._listed:
            return ""
        return f"no {self.name} is listed for {plan.target}: see actions.{_KEYS[self.name]}"

    def do(self, plan: Plan) -> Result:
        """See `Lever`."""
        listed = self._listed[plan.target]
        return self._end(listed.argv, listed.timeout)

    def undo(self, plan: Plan) -> Result:
        """See `Lever`."""
        listed = self._listed[plan.target]
        if not listed.undo:
            return Result(Ending.DONE, "nothing was listed to take it back")
        return self._end(listed.undo, listed.timeout)

    def _end(self, argv: Sequence[str], timeout: float) -> Result:
        try:
            status = self._run(argv, timeout)
        except subprocess.TimeoutExpired:
            return Result(Ending.FAILED, f"{argv[0]} took longer than {timeout:.0f} s")
        except OSError as error:
            return Result(Ending.REFUSED, f"{argv[0]} cannot be started: {error}")
        if status:
            return Result(Ending.FAILED, f"{argv[0]} ended with status {status}")
        return Result(Ending.DONE, f"{argv[0]} ended well")


_KEYS: Mapping[str, str] = {"command": "commands", "restart_unit": "units"}


def units(named: Mapping[str, str]) -> dict[str, Listed]:
    """`systemctl restart UNIT` for each target, without asking a terminal for a password."""
    words = ("systemctl", "--no-ask-password", "restart")
    return {target: Listed((*words, unit), timeout=120.0) for target, unit in named.items()}
