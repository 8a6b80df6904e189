"""Pods as the API gives them, and which of them a target runs in."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

from gpudiag.agent.kubernetes.client import Api, Object
from gpudiag.agent.kubernetes.errors import Unclear
from gpudiag.agent.kubernetes.times import epoch

_UID = re.compile(r"pod([0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12})")


@dataclass(frozen=True, slots=True)
class Owner:
    """The controller of an object, as its ownerReferences name it."""

    api: str
    kind: str
    name: str
    uid: str = ""

    def path(self, namespace: str) -> str:
        """Where it is, for kinds in a group of their own."""
        return f"/apis/{self.api}/namespaces/{namespace}/{self.kind.lower()}s/{self.name}"


@dataclass(frozen=True, slots=True)
class Pod:
    """What acting needs to know; `created` in epoch seconds of the API server's clock."""

    namespace: str
    name: str
    uid: str
    created: float
    phase: str = "Running"
    deleting: bool = False
    owner: Owner | None = None
    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)

    @property
    def path(self) -> str:
        """Where it is."""
        return pod_path(self.namespace, self.name)


Whose = Callable[[str], Pod | str]
"""The pod that a target (`job=llama`) runs in, or why none can be named; raises `ApiError`."""


def pod_path(namespace: str, name: str) -> str:
    """Where a pod is."""
    return f"/api/v1/namespaces/{namespace}/pods/{name}"


def read(told: Object) -> Pod:
    """One Pod object; raises `Unclear` where it is none."""
    try:
        return _read(told)
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise Unclear(f"the API told of a pod in another form: {error!r}") from error


def _read(told: Object) -> Pod:
    meta = told["metadata"]
    return Pod(
        namespace=meta["namespace"],
        name=meta["name"],
        uid=meta["uid"],
        created=epoch(meta["creationTimestamp"]),
        phase=told.get("status", {}).get("phase", ""),
        deleting="deletionTimestamp" in meta,
        owner=owner(told),
        labels=dict(meta.get("labels") or {}),
        annotations=dict(meta.get("annotations") or {}),
    )


def owner(told: Object) -> Owner | None:
    """The one that starts another when this object goes; None where nobody does."""
    for one in told["metadata"].get("ownerReferences") or ():
        if one.get("controller"):
            return Owner(one["apiVersion"], one["kind"], one["name"], one["uid"])
    return None


def own(api: Api, name: str, server: str) -> Whose:
    """For an agent beside the workload: its own pod, whose server is called `server`."""

    def whose(target: str) -> Pod | str:
        kind, _, named = target.partition("=")
        if kind == "job" or (kind == "server" and named == server):
            return read(api.get(pod_path(api.account.namespace(), name)))
        return f"{target} is not known to run in this pod: see actions.workload"

    return whose


def on_node(
    api: Api, node: str, pids: Callable[[str], Sequence[int]], proc: Path = Path("/proc")
) -> Whose:
    """For the agent of a node: the pod that the job's processes are in, by their cgroups."""

    def whose(target: str) -> Pod | str:
        kind, _, named = target.partition("=")
        uids = uids_of(pids(named), proc) if kind == "job" else set()
        if len(uids) != 1:
            return f"{target} runs in {len(uids)} known pods of this node: only one can be evicted"
        for told in api.get(f"/api/v1/pods?fieldSelector=spec.nodeName%3D{quote(node)}")["items"]:
            if told["metadata"]["uid"] in uids:
                return read(told)
        return f"the API knows no pod {uids.pop()} on {node}: is that the node's name there?"

    return whose


def uids_of(pids: Iterable[int], proc: Path) -> set[str]:
    """The pods that these processes are in, as the kernel names their cgroups."""
    found = set()
    for pid in pids:
        try:
            cgroup = (proc / f"{pid}/cgroup").read_text("utf-8", "replace")
        except OSError:
            continue
        if match := _UID.search(cgroup):
            found.add(match[1].replace("_", "-"))
    return found
