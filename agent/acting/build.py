"""From the configuration to an actor."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from gpudiag.agent import files
from gpudiag.agent.acting import levers
from gpudiag.agent.acting.actor import Actor
from gpudiag.agent.acting.live_world import LiveWorld, Rules
from gpudiag.agent.actions.levers.workload import Workload
from gpudiag.agent.channel.server import ChannelServer
from gpudiag.agent.config.acting import Actions
from gpudiag.agent.findings.remark_store import Remarks


def actor_for(
    config: Actions,
    state: Path,
    node: str,
    writer: Rules,
    channel: ChannelServer | None,
    now: Callable[[], float],
    remarks: Remarks,
) -> Actor:
    """The actor of a live agent; raises `UsageError` where the configuration is bad."""

    def secret(value: str) -> str:
        return files.secret(value, "the section actions")

    workload = Workload(state / "workload.json", now) if config.workload else None
    world = LiveWorld(writer, now, Path(config.opt_out), config.maintenance, remarks)
    pullable = levers.build(
        config,
        secret,
        ranks=channel,
        pids=channel.pids if channel else lambda _: [],
        workload=workload,
    )
    return Actor(config, state, node, world, pullable, secret, workload)
