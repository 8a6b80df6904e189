"""Pods, Jobs and JobSets as an API server gives them."""

from __future__ import annotations

from typing import Any

Body = dict[str, Any]
APIS = {"Job": "batch/v1", "JobSet": "jobset.x-k8s.io/v1alpha2", "Node": "v1"}


def owned_by(owner: str) -> Body:
    kind, _, name = owner.partition("/")
    by = {"apiVersion": APIS.get(kind, "apps/v1"), "kind": kind, "name": name}
    return {"ownerReferences": [{**by, "uid": "u", "controller": True}]} if owner else {}


def pod(name: str = "llama-0", owner: str = "", **meta: Any) -> Body:
    """`owner` as `Job/llama`."""
    return {
        **{"apiVersion": "v1", "kind": "Pod"},
        "metadata": {
            **{"name": name, "namespace": "ml", "creationTimestamp": "2026-01-01T00:00:00Z"},
            **owned_by(owner),
            **meta,
        },
        "spec": {"nodeName": "n1"},
        "status": {"phase": "Running"},
    }


def job(spec: Body | None = None, failed: int = 0, owner: str = "", **meta: Any) -> Body:
    return {
        **{"apiVersion": "batch/v1", "kind": "Job"},
        "metadata": {"name": "llama", "namespace": "ml", **owned_by(owner), **meta},
        "spec": {"backoffLimit": 6, **(spec or {})},
        "status": {"active": 1, "failed": failed},
    }


def jobset(most: int | None, restarts: int) -> Body:
    policy = {} if most is None else {"failurePolicy": {"maxRestarts": most}}
    return {
        **{"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet"},
        "metadata": {"name": "set", "namespace": "ml"},
        "spec": policy,
        "status": {"restarts": restarts},
    }


def path_of(told: Body) -> str:
    api, kind, meta = told["apiVersion"], told["kind"].lower(), told["metadata"]
    root = "/api/v1" if api == "v1" else f"/apis/{api}"
    return f"{root}/namespaces/{meta['namespace']}/{kind}s/{meta['name']}"


def event(reason: str, message: str, at: str = "2027-01-15T08:00:00Z", **other: Any) -> Body:
    """A core Event of the pod chat-0, as the kubelet writes it; `container` is of the pod."""
    container = other.pop("container", "vllm")
    about = {"kind": "Pod", "namespace": "ml", "name": other.pop("pod", "chat-0")}
    return {
        **{"apiVersion": "v1", "kind": "Event", "type": "Warning", "reason": reason},
        **{"message": message, "count": 1, "firstTimestamp": at, "lastTimestamp": at},
        "metadata": {"namespace": "ml", "creationTimestamp": at},
        "involvedObject": about | {"fieldPath": f"spec.containers{{{container}}}"},
        "source": {"component": "kubelet", "host": "n1"},
        **{"reportingComponent": "kubelet", "reportingInstance": "n1", "eventTime": None},
        **other,
    }
