"""From the configuration to an actor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from gpudiag.agent import files
from gpudiag.agent.acting import levers
from gpudiag.agent.acting.actor import Actor
from gpudiag.agent.acting.cluster import Cluster
from gpudiag.agent.acting.live_world import LiveWorld, Rules
from gpudiag.agent.actions.levers.workload import Sockets, Workload
from gpudiag.agent.channel.server import ChannelServer
from gpudiag.agent.config.acting import Actions
from gpudiag.agent.config.serving import ServingServer
from gpudiag.agent.findings.remark_store import Remarks
from gpudiag.probes.serving.discovery import listening


def actor_for(
    config: Actions,
    state: Path,
    node: str,
    writer: Rules,
    channel: ChannelServer | None,
    now: Callable[[], float],
    remarks: Remarks,
    servers: Sequence[ServingServer] = (),
    cluster: Cluster | None = None,
) -> Actor:
    """The actor of a live agent; raises `UsageError` where the configuration is bad.

    `servers` are those whose pages are read, and may be the workload beside this agent; `cluster`
    is what the cluster's API gives.
    """

    def secret(value: str) -> str:
        return files.secret(value, "the section actions")

    workload = None
    if name := config.workload:
        workload = Workload(state / "workload.json", now, name, sockets_of(name, servers))
    labels = Path(config.pod_labels) if config.pod_labels else None
    world = LiveWorld(writer, now, Path(config.opt_out), config.maintenance, remarks, labels)
    pullable = levers.build(
        config,
        secret,
        ranks=channel,
        pids=channel.pids if channel else lambda _: [],
        signalled=channel.signalled if channel else lambda _pid, _number: None,
        workload=workload,
    )
    cluster = cluster or Cluster()
    pullable |= {lever.name: lever for lever in cluster.levers}
    mirrors, lease = cluster.mirrors, cluster.lease
    return Actor(config, state, node, world, pullable, secret, workload, mirrors, lease)


def sockets_of(name: str, servers: Sequence[ServingServer]) -> Sockets:
    """What the server of that name listens on: the containers of a pod share their network."""
    urls = [urlsplit(server.url) for server in servers if server.name == name]
    ports = {url.port or {"https": 443}.get(url.scheme, 80) for url in urls}
    return lambda: frozenset(one.inode for one in listening() if one.port in ports)
