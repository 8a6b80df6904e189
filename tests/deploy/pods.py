"""The pod of an overlay, its agent and its workload."""

from __future__ import annotations

from typing import Any

from gpudiag.agent import config
from gpudiag.agent.config import Config
from tests.deploy.kustomized import OVERLAYS, overlay

Spec = dict[str, Any]

SIDECARS = [name for name in OVERLAYS if name not in {"daemonset", "actions-node"}]
NODES = [name for name in OVERLAYS if name not in SIDECARS]


def template(name: str) -> Spec:
    """The pod template of the one workload in the overlay."""
    (found,) = [o["spec"]["template"] for o in overlay(name) if "template" in o.get("spec", {})]
    whole: Spec = found
    return whole


def pod(name: str) -> Spec:
    spec: Spec = template(name)["spec"]
    return spec


def containers(spec: Spec) -> list[Spec]:
    return [*spec.get("initContainers", []), *spec["containers"]]


def agent(name: str) -> Spec:
    return next(c for c in containers(pod(name)) if c["name"] == "gpudiag")


def workload(name: str) -> Spec:
    (found,) = [c for c in containers(pod(name)) if c["name"] != "gpudiag"]
    return found


def variables(container: Spec) -> dict[str, Any]:
    """Its environment, without the values that come from the pod's own fields."""
    return {one["name"]: one.get("value") for one in container.get("env", [])}


def mounts(container: Spec) -> dict[str, str]:
    """The volume at each path."""
    return {one["mountPath"]: one["name"] for one in container["volumeMounts"]}


def volume(name: str, of: str) -> Spec:
    return next(v for v in pod(name)["volumes"] if v["name"] == of)


def settings(name: str) -> Config:
    """The configuration that the agent finds, read as the agent reads it."""
    held = volume(name, mounts(agent(name))["/etc/gpudiag"])["configMap"]["name"]
    (text,) = [
        o["data"]["gpudiag.yaml"]
        for o in overlay(name)
        if o["kind"] == "ConfigMap" and o["metadata"]["name"] == held
    ]
    return config.parse(text, name)
