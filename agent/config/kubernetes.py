"""The section `kubernetes`: whether the cluster's API is asked, and what for."""

from __future__ import annotations

from gpudiag.agent.config.acting import Actions, Count
from gpudiag.agent.config.base import Duration, Section
from gpudiag.agent.kubernetes.account import MOUNT
from gpudiag.agent.kubernetes.rights import Role, Use


class Kubernetes(Section, frozen=True):
    """Nothing is asked for what `use` does not name; `enabled` null: where there is an account."""

    enabled: bool | None = None
    use: tuple[Use, ...] = ()
    timeout: Duration = Duration(10.0)
    cordon_most: Count = 1
    service_account: str = str(MOUNT)


def fault(section: Kubernetes, actions: Actions, role: Role) -> str:
    """What is wrong with it beside `actions` and in an agent of that role; "" where nothing is."""
    if "cordon" in section.use and "mark_node" not in section.use:
        return "cordon goes with mark_node: name both"
    if "lease" in section.use and actions.lease:
        return "lease: actions.lease names a folder for the same; leave one of them out"
    if "pod_events" in section.use and role == "node":
        return "pod_events: nothing else runs in the pod of a node's agent; set node.role: sidecar"
    return ""
