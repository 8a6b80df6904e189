"""What the cluster's API gives to acting, as far as the configuration uses it."""

from __future__ import annotations

import logging
import os
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gpudiag.agent.acting import events
from gpudiag.agent.actions.audit import Sink
from gpudiag.agent.actions.contract import Lease, Lever
from gpudiag.agent.actions.levers.kubernetes import EvictPod
from gpudiag.agent.actions.levers.marking import MarkNode
from gpudiag.agent.config.kubernetes import Kubernetes
from gpudiag.agent.kubernetes import pods
from gpudiag.agent.kubernetes.account import account
from gpudiag.agent.kubernetes.client import Api
from gpudiag.agent.kubernetes.leases import KubernetesLease
from gpudiag.agent.kubernetes.pod_events import PodEvents
from gpudiag.agent.kubernetes.rights import Role
from gpudiag.probes import Event
from gpudiag.probes.errors import UsageError

log = logging.getLogger(__name__)

CONTAINER = "gpudiag"
"""How the manifests call the agent's own container; CONTAINER_NAME says otherwise."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """Empty off Kubernetes, and where the configuration uses none of it."""

    levers: Sequence[Lever] = ()
    mirrors: Sequence[Sink] = ()
    lease: Lease | None = None
    watch: PodEvents | None = None


@dataclass(frozen=True, slots=True)
class Around:
    """What is known of this agent: its node and role, the server beside it ("" for none), the
    processes of a job's ranks as this node's kernel knows them, and who is told of events.
    """

    node: str
    role: Role
    server: str
    pids: Callable[[str], Sequence[int]]
    tell: Callable[[Event], None]


def cluster_for(
    config: Kubernetes,
    around: Around,
    state: Path,
    now: Callable[[], float],
    environ: Mapping[str, str] = os.environ,
) -> Cluster:
    """Raises `UsageError` where the configuration wants the API and this is no pod with a token."""
    if config.enabled is False or not config.use:
        return Cluster()
    found = account(environ, Path(config.service_account))
    if found is None:
        why = f"no service account in {config.service_account}, or no cluster around it"
        if config.enabled:
            raise UsageError(f"kubernetes.enabled is true, and there is {why}")
        log.info("the cluster's API is not used: %s", why)
        return Cluster()
    api = Api(found, float(config.timeout))
    pod = environ.get("POD_NAME") or environ.get("HOSTNAME") or platform.node()
    node = environ.get("NODE_NAME") or around.node
    return Cluster(
        levers=_levers(config, api, around, pod, node, state, now),
        mirrors=_mirrors(config, api, around, pod, node),
        lease=KubernetesLease(api, pod, now) if "lease" in config.use else None,
        watch=_watch(config, api, around, pod, environ.get("CONTAINER_NAME", CONTAINER), now),
    )


def _watch(
    config: Kubernetes,
    api: Api,
    around: Around,
    pod: str,
    container: str,
    now: Callable[[], float],
) -> PodEvents | None:
    if "pod_events" not in config.use:
        return None
    return PodEvents(api, pod, container, around.tell, now)


def _levers(
    config: Kubernetes,
    api: Api,
    around: Around,
    pod: str,
    node: str,
    state: Path,
    now: Callable[[], float],
) -> list[Lever]:
    made: list[Lever] = []
    if "evict_pod" in config.use:
        beside = around.role == "sidecar"
        whose = pods.own(api, pod, around.server) if beside else None
        made.append(EvictPod(api, whose or pods.on_node(api, node, around.pids)))
    if "mark_node" in config.use:
        most = config.cordon_most if "cordon" in config.use else 0
        made.append(MarkNode(api, node, state / "marks.json", now, most))
    return made


def _mirrors(config: Kubernetes, api: Api, around: Around, pod: str, node: str) -> list[Sink]:
    if "events" not in config.use:
        return []
    beside = around.role == "sidecar"
    about = events.of_pod(api, pod) if beside else events.of_node(node)
    return [events.Events(api, about, pod)]
