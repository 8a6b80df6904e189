"""The levers that the configuration and this node give, by action."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from signal import Signals

from gpudiag.agent.actions.contract import Lever
from gpudiag.agent.actions.levers import commands
from gpudiag.agent.actions.levers.commands import Command, Listed
from gpudiag.agent.actions.levers.signals import RestartWorkers
from gpudiag.agent.actions.levers.training import Ranks, TrainingLever
from gpudiag.agent.actions.levers.workload import RestartContainer, Unready, Workload
from gpudiag.agent.actions.planning import JOB_ACTIONS
from gpudiag.agent.config.acting import Actions

Secret = Callable[[str], str]


def build(
    config: Actions,
    secret: Secret,
    *,
    ranks: Ranks | None,
    pids: Callable[[str], Sequence[int]],
    signalled: Callable[[int, Signals], None] = lambda _pid, _number: None,
    workload: Workload | None,
) -> dict[str, Lever]:
    """What may be pulled here; an action that is not in it is refused with that reason."""
    made: list[Lever] = []
    if ranks is not None:
        made += [TrainingLever(name, ranks) for name in sorted(JOB_ACTIONS - {"restart_workers"})]
        made.append(RestartWorkers(pids, signalled))
    if workload is not None:
        made += [Unready(workload, lambda: _floor(config.floor)), RestartContainer(workload)]
    if config.servers or config.gateways:
        # httpx costs the agent some MiB: only who calls pays them.
        from gpudiag.agent.acting import calling

        made += calling.levers(config, secret)
    listed = {
        target: Listed(command.argv, command.undo, command.timeout)
        for target, command in config.commands.items()
    }
    if listed:
        made.append(Command("command", listed))
    if config.units:
        made.append(Command("restart_unit", commands.units(config.units)))
    return {lever.name: lever for lever in made}


def _floor(url: str) -> str:
    if not url:
        return "actions.floor is not set: nobody knows whether another replica can take the load"
    from gpudiag.agent.acting import calling

    return calling.floor(url)
