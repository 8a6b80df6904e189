"""Ends the workers of a job, not their launcher: torchrun or the scheduler starts them again."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from collections.abc import Callable, Iterable, Mapping, Sequence

from gpudiag.agent.actions.contract import Ending, Plan, Result
from gpudiag.agent.rules.contract import Rung

GRACE_SECONDS = 30.0
"""From SIGTERM to SIGKILL: transformers alone waits 3 s before it saves, then a step and a save;
a blocked collective uses none of it. Kubernetes' own default is 30 s."""

MOST_GRACE = 600.0
"""Acting waits meanwhile: an agent that waits for one job for ever acts on no other."""

FIRST = {
    name: signal.Signals[name] for name in ("SIGTERM", "SIGUSR1", "SIGUSR2", "SIGINT", "SIGHUP")
}
"""What a job may want to be told first. transformers and Megatron-LM (`--exit-signal-handler`)
save and leave on SIGTERM; Lightning under Slurm saves on SIGUSR1 and asks for its own requeue; jobs
written for `sbatch --signal` often on SIGUSR2."""


class RestartWorkers:
    """SIGTERM to every rank of the job on this node, SIGKILL to those that stay.

    A ladder may say otherwise in the step's `args`: `signal`, one of `FIRST`, and `grace`, seconds.
    `pids` gives the process ids of a job's ranks as this node's kernel knows them; `told` is called
    for each that ended with its signal, so that nobody takes it for a crash.
    """

    name = "restart_workers"
    rung: Rung = "restart"
    reversible = False

    def __init__(
        self,
        pids: Callable[[str], Sequence[int]],
        told: Callable[[int, signal.Signals], None] = lambda _pid, _number: None,
        grace: float = GRACE_SECONDS,
    ) -> None:
        self._pids = pids
        self._told = told
        self._grace = grace

    def unready(self, plan: Plan) -> str:
        """See `Lever`."""
        if why := _bad(plan):
            return why
        job = dict(plan.subject).get("job", "")
        pids = self._pids(job)
        if not pids:
            return f"no rank of {job!r} is known on this node"
        refused = [pid for pid in pids if not _may_signal(pid)]
        return f"no right to signal {refused}: same user or CAP_KILL is needed" if refused else ""

    def do(self, plan: Plan) -> Result:
        """See `Lever`; a process id that was given to another since is never signalled."""
        if why := _bad(plan):
            return Result(Ending.REFUSED, why)
        first = FIRST[str(plan.args.get("signal", "SIGTERM"))]
        grace = float(plan.args.get("grace", self._grace))
        with contextlib.ExitStack() as opened:
            workers = {}
            for pid in self._pids(dict(plan.subject).get("job", "")):
                with contextlib.suppress(ProcessLookupError):
                    workers[pid] = os.pidfd_open(pid)
                    opened.callback(os.close, workers[pid])
            if not workers:
                return Result(Ending.REFUSED, "no rank runs any more")
            _send(workers.values(), first)
            left = self._outlive(workers, first, grace)
            _send(left.values(), signal.SIGKILL)
            stuck = self._outlive(left, signal.SIGKILL, self._grace)
        if stuck:
            return Result(Ending.FAILED, f"{sorted(stuck)} outlive SIGKILL: in a driver call?")
        how = f", {len(left)} of them by SIGKILL" if left else ""
        return Result(Ending.DONE, f"{len(workers)} workers ended{how}")

    def _outlive(
        self, workers: Mapping[int, int], sent: signal.Signals, grace: float
    ) -> Mapping[int, int]:
        """Those of `workers` (descriptor by process id) that still run after the grace."""
        end = time.monotonic() + grace
        while workers and time.monotonic() < end:
            ended, _, _ = select.select(list(workers.values()), [], [], min(1.0, grace))
            for pid in (pid for pid, descriptor in workers.items() if descriptor in ended):
                self._told(pid, sent)
            workers = {pid: fd for pid, fd in workers.items() if fd not in ended}
        return workers

    def undo(self, plan: Plan) -> Result:
        """An end cannot be taken back."""
        return Result(Ending.REFUSED, f"{plan.action} cannot be taken back")


def _bad(plan: Plan) -> str:
    """What is wrong with the step's arguments; "" where nothing is."""
    unknown = plan.args.keys() - {"signal", "grace"}
    if unknown:
        return f"restart_workers knows no argument {sorted(unknown)}: there are signal and grace"
    if plan.args.get("signal", "SIGTERM") not in FIRST:
        return f"no signal to begin with: {plan.args['signal']!r}; there are {', '.join(FIRST)}"
    grace = plan.args.get("grace", GRACE_SECONDS)
    if isinstance(grace, bool | str) or not 0.0 < grace <= MOST_GRACE:
        return f"grace is {grace!r}: it takes seconds above 0, {MOST_GRACE:.0f} at most"
    return ""


def _may_signal(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return True


def _send(workers: Iterable[int], number: signal.Signals) -> None:
    for descriptor in workers:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(descriptor, number)
