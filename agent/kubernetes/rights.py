"""What each use of the cluster's API needs to be allowed: manifests and refusals both quote it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Use = Literal["events", "pod_events", "lease", "evict_pod", "mark_node", "cordon"]
Role = Literal["node", "sidecar"]
Scope = Literal["namespace", "default", "cluster"]
"""The agent's own namespace; the namespace `default`, where events of nodes go; the cluster."""


@dataclass(frozen=True, slots=True)
class Right:
    """One line of a Role or ClusterRole: `resource` with its subresource, as `pods/eviction`.

    `roles` are the kinds of agent that need it.
    """

    use: Use
    group: str
    resource: str
    verbs: tuple[str, ...]
    scope: Scope
    roles: tuple[Role, ...] = ("node", "sidecar")


RIGHTS: tuple[Right, ...] = (
    Right("events", "events.k8s.io", "events", ("create",), "namespace", ("sidecar",)),
    Right("events", "events.k8s.io", "events", ("create",), "default", ("node",)),
    Right("events", "", "pods", ("get",), "namespace", ("sidecar",)),
    Right("pod_events", "", "events", ("list", "watch"), "namespace", ("sidecar",)),
    Right("lease", "coordination.k8s.io", "leases", ("get", "create", "update"), "namespace"),
    Right("evict_pod", "", "pods", ("get",), "namespace", ("sidecar",)),
    Right("evict_pod", "", "pods/eviction", ("create",), "namespace", ("sidecar",)),
    Right("evict_pod", "batch", "jobs", ("get",), "namespace", ("sidecar",)),
    Right("evict_pod", "jobset.x-k8s.io", "jobsets", ("get",), "namespace", ("sidecar",)),
    Right("evict_pod", "", "pods", ("list",), "cluster", ("node",)),
    Right("evict_pod", "", "pods/eviction", ("create",), "cluster", ("node",)),
    Right("evict_pod", "batch", "jobs", ("get",), "cluster", ("node",)),
    Right("evict_pod", "jobset.x-k8s.io", "jobsets", ("get",), "cluster", ("node",)),
    Right("mark_node", "", "nodes/status", ("patch",), "cluster", ("node",)),
    Right("cordon", "", "nodes", ("get", "list", "patch"), "cluster", ("node",)),
)


def rights(use: Use, role: Role) -> tuple[Right, ...]:
    """What an agent of that kind needs for one use."""
    return tuple(right for right in RIGHTS if right.use == use and role in right.roles)
