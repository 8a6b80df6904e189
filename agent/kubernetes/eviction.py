"""An Eviction (policy/v1) of one very pod: it honours the budgets that a plain deletion would not.

A dry run asks the API server whether it would be carried out, disruption budgets included.
"""

from __future__ import annotations

from gpudiag.agent.kubernetes.client import Api
from gpudiag.agent.kubernetes.errors import ApiError, Refused
from gpudiag.agent.kubernetes.pods import Pod, read


def evict(api: Api, pod: Pod, *, dry: bool = False) -> None:
    """Returns once the API took it; raises `NotReached`, `Unclear` or `Refused`."""
    options: dict[str, object] = {"preconditions": {"uid": pod.uid}}
    if dry:
        options["dryRun"] = ["All"]
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": pod.name, "namespace": pod.namespace},
        "deleteOptions": options,
    }
    api.send("POST", f"{pod.path}/eviction", body)


def why_not(pod: Pod, no: Refused) -> str:
    """A refusal in words; for 429 also the rate limit of the API server itself is "not now"."""
    if no.status == 404:
        return f"pod {pod.name} is gone"
    if no.status == 409:
        return f"the pod {pod.name} that is there now is another one"
    if no.status == 429:
        again = f", to be asked again in {no.retry_after:.0f} s" if no.retry_after else ""
        return f"not now{again}: {no.message}"
    return str(no)


def taken(api: Api, pod: Pod) -> bool | None:
    """Whether this very pod is on its way out, or gone; None where nobody can tell."""
    try:
        now = read(api.get(pod.path))
    except Refused as no:
        return True if no.status == 404 else None
    except ApiError:
        return None
    return now.uid != pod.uid or now.deleting
