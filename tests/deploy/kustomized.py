"""What `deploy/` becomes in a cluster: as much of kustomize as its files use, so that no test needs
the program. Another test compares this with kubectl where that is installed."""

from __future__ import annotations

import copy
import re
from pathlib import Path
from typing import Any

import yaml

Object = dict[str, Any]

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
OVERLAYS = sorted(path.parent.name for path in DEPLOY.glob("overlays/*/kustomization.yaml"))
CLUSTER_WIDE = {"ClusterRole", "ClusterRoleBinding", "Namespace"}
KEYS = {"apiVersion", "kind", "namespace", "resources", "components", "patches"}


def overlay(name: str) -> list[Object]:
    """The objects of `deploy/overlays/NAME`."""
    return kustomized(DEPLOY / "overlays" / name)


def documents(path: Path) -> list[Object]:
    return list(yaml.safe_load_all(path.read_text()))


def kustomized(folder: Path, given: list[Object] | None = None) -> list[Object]:
    """The objects of a kustomization; a component's are `given` plus its own, patched."""
    told = yaml.safe_load((folder / "kustomization.yaml").read_text())
    unknown = told.keys() - KEYS - {"configMapGenerator"}
    assert not unknown, f"{folder}: this helper does not know {unknown}"
    objects = list(given or [])
    for name in told.get("resources", []):
        path = folder / name
        objects += kustomized(path) if path.is_dir() else documents(path)
    objects += [_config_map(folder, one) for one in told.get("configMapGenerator", [])]
    for name in told.get("components", []):
        objects = kustomized(folder / name, objects)
    for patch in told.get("patches", []):
        objects = [
            _patched(one, patch["target"]["kind"], folder / patch["path"]) for one in objects
        ]
    return [_placed(one, told.get("namespace")) for one in objects]


def _config_map(folder: Path, generator: Object) -> Object:
    data = {name: (folder / name).read_text() for name in generator["files"]}
    meta = {"name": generator["name"]}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data}


def _placed(given: Object, namespace: str | None) -> Object:
    if namespace is None or given["kind"] == "Namespace":
        return given
    one = copy.deepcopy(given)
    if one["kind"] not in CLUSTER_WIDE:
        one["metadata"]["namespace"] = namespace
    for subject in one.get("subjects", []):
        subject["namespace"] = namespace
    return one


def _patched(given: Object, kinds: str, path: Path) -> Object:
    if not re.fullmatch(kinds, given["kind"]):
        return given
    one = copy.deepcopy(given)
    for step in yaml.safe_load(path.read_text()):
        assert step["op"] == "add"
        *parents, last = step["path"].strip("/").split("/")
        assert last == "-"
        there: Any = one
        for part in parents:
            there = there[int(part)] if isinstance(there, list) else there[part]
        there.append(step["value"])
    return one
