"""A node's own condition in the cluster, and its cordon, for others and people to act on.

The condition reads as node-problem-detector's do: `True` means that there is a problem, so that
what drains nodes by condition (draino, node healthcheck operators) understands it.
"""

from __future__ import annotations

from dataclasses import dataclass

from gpudiag.agent.kubernetes.client import MERGE, STRATEGIC, Api
from gpudiag.agent.kubernetes.times import whole

CONDITION = "GpudiagProblem"
CORDONED = "gpudiag/cordoned"
"""The label of a node that gpudiag cordoned: nobody else's cordon is ever lifted."""


@dataclass(frozen=True, slots=True)
class Condition:
    """`since` is when it last turned from or to a problem, None to leave that as it is."""

    problem: bool
    reason: str
    message: str
    since: float | None = None


def tell(api: Api, node: str, condition: Condition, now: float, *, dry: bool = False) -> None:
    """Set the condition, and no other; raises `ApiError`. Twice the same is as good as once."""
    told = {
        "type": CONDITION,
        "status": "True" if condition.problem else "False",
        "reason": condition.reason,
        "message": condition.message,
        "lastHeartbeatTime": whole(now),
    }
    if condition.since is not None:
        told["lastTransitionTime"] = whole(condition.since)
    path = f"/api/v1/nodes/{node}/status{'?dryRun=All' if dry else ''}"
    api.send("PATCH", path, {"status": {"conditions": [told]}}, STRATEGIC)


def cordon(api: Api, node: str, most: int) -> str:
    """Keep new pods off the node; why it was left as it is, "" where it is gpudiag's cordon now.

    `most` nodes of the cluster may be cordoned by gpudiag: a fault that all nodes seem to have is
    more often a wrong finding. Two agents at the same moment may get one further.
    Raises `ApiError`.
    """
    told = api.get(f"/api/v1/nodes/{node}")
    if CORDONED in (told["metadata"].get("labels") or {}):
        return ""
    if told.get("spec", {}).get("unschedulable"):
        return "somebody else has cordoned it"
    others = api.get(f"/api/v1/nodes?labelSelector={CORDONED}%3Dtrue")["items"]
    if len(others) >= most:
        return f"gpudiag has cordoned {len(others)} nodes, and {most} are the most"
    change = {"metadata": {"labels": {CORDONED: "true"}}, "spec": {"unschedulable": True}}
    api.send("PATCH", f"/api/v1/nodes/{node}", change, MERGE)
    return ""


def uncordon(api: Api, node: str) -> None:
    """Take back gpudiag's own cordon; without its label nothing is done. Raises `ApiError`."""
    told = api.get(f"/api/v1/nodes/{node}")
    if CORDONED in (told["metadata"].get("labels") or {}):
        change = {"metadata": {"labels": {CORDONED: None}}, "spec": {"unschedulable": None}}
        api.send("PATCH", f"/api/v1/nodes/{node}", change, MERGE)
