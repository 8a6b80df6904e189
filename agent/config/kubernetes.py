"""The section `kubernetes`: whether the cluster's API is asked, and what for."""

from __future__ import annotations

from gpudiag.agent.config.acting import Actions, Count
from gpudiag.agent.config.base import Duration, Section
from gpudiag.agent.kubernetes.account import MOUNT
from gpudiag.agent.kubernetes.rights import Use


class Kubernetes(Section, frozen=True):
    """Nothing is asked for what `use` does not name; `enabled` null: where there is an account."""

    enabled: bool | None = None
    use: tuple[Use, ...] = ()
    timeout: Duration = Duration(10.0)
    cordon_most: Count = 1
    service_account: str = str(MOUNT)


def fault(section: Kubernetes, actions: Actions) -> str:
    """What is wrong with it beside `actions`, in words; "" where nothing is."""
    if "cordon" in section.use and "mark_node" not in section.use:
        return "cordon goes with mark_node: name both"
    if "lease" in section.use and actions.lease:
        return "lease: actions.lease names a folder for the same; leave one of them out"
    return ""
