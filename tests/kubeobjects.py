"""What an API server does with objects, as far as gpudiag asks it: answers as it words them."""

from __future__ import annotations

import copy
import re
import threading
import uuid
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any
from urllib.parse import parse_qs, urlsplit

Body = dict[str, Any]
_COLLECTIONS = re.compile(r".*/(pods|leases|events|nodes|jobs|jobsets)$")
_MICRO = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$")


class Rejected(Exception):
    def __init__(self, code: int, reason: str, message: str, after: int | None = None) -> None:
        super().__init__(message)
        self.after, self.code = after, code
        self.status = {
            **{"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"},
            **{"message": message, "reason": reason, "code": code},
        }


def space_of(path: str) -> str:
    return path.partition("/namespaces/")[2].partition("/")[0]


@dataclass
class Objects:
    """By path. `disruptions` is how many evictions a pod's budget allows, by its path.

    Whoever changes several things holds `lock`; tests and the server's threads do at once.
    """

    at: dict[str, Body] = field(default_factory=dict)
    disruptions: dict[str, int] = field(default_factory=dict)
    version: int = 1
    lock: threading.RLock = field(default_factory=threading.RLock)

    def add(self, path: str, body: Body) -> Body:
        meta = body.setdefault("metadata", {})
        meta.setdefault("name", path.rpartition("/")[2])
        meta.setdefault("uid", str(uuid.uuid4()))
        if "/namespaces/" in path:
            meta.setdefault("namespace", space_of(path))
        with self.lock:
            self.at[path] = body
            return self._stamped(body)

    def of(self, kind: str) -> list[Body]:
        with self.lock:
            return [body for path, body in self.at.items() if path.split("/")[-2] == kind]

    def changed(self, kind: str, since: int) -> tuple[int, list[Body]]:
        """The newest version, and what of a kind is newer than `since`."""
        with self.lock:
            of = self.of(kind)
            return self.version, [o for o in of if int(o["metadata"]["resourceVersion"]) > since]

    def answer(self, method: str, url: str, body: Body | None, kind: str) -> tuple[int, Body]:
        path, query = urlsplit(url).path, parse_qs(urlsplit(url).query)
        if query.get("dryRun") == ["All"]:
            trial = replace(self, at=copy.deepcopy(self.at))
            return trial.answer(method, path, body, kind)
        if method == "POST" and path.endswith("/eviction"):
            return self._evict(path.removesuffix("/eviction"), body or {})
        if method == "POST":
            return self._create(path, body or {})
        if method == "GET" and _COLLECTIONS.match(path) and path not in self.at:
            return 200, self._list(path, query)
        if method == "GET":
            return 200, self._found(path)
        if method == "PUT":
            return self._update(path, body or {})
        return self._patch(path, body or {}, kind)

    def _found(self, path: str) -> Body:
        if path in self.at:
            return self.at[path]
        kind, name = path.split("/")[-2:]
        raise Rejected(404, "NotFound", f'{kind} "{name}" not found')

    def _list(self, path: str, query: dict[str, list[str]]) -> Body:
        kind = path.rpartition("/")[2]
        items = [o for p, o in self.at.items() if p.split("/")[-2] == kind]
        items = [item for item in items if chosen(item, query)]
        for wanted in query.get("labelSelector", []):
            name, _, value = wanted.partition("=")
            items = [o for o in items if o["metadata"].get("labels", {}).get(name) == value]
        meta = {"resourceVersion": str(self.version)}
        return {"kind": "List", "apiVersion": "v1", "metadata": meta, "items": items}

    def _evict(self, path: str, body: Body) -> tuple[int, Body]:
        pod = self._found(path)
        if body.get("apiVersion") != "policy/v1" or body.get("kind") != "Eviction":
            raise Rejected(400, "BadRequest", "no kind Eviction is registered for this version")
        options = body.get("deleteOptions", {})
        wanted = options.get("preconditions", {}).get("uid", pod["metadata"]["uid"])
        if wanted != pod["metadata"]["uid"]:
            raise Rejected(409, "Conflict", "Precondition failed: UID in precondition differs")
        if not self.disruptions.get(path, 1):
            why = "Cannot evict pod as it would violate the pod's disruption budget."
            raise Rejected(429, "TooManyRequests", why, 10)
        if options.get("dryRun") != ["All"]:
            self.disruptions[path] = self.disruptions.get(path, 1) - 1
            pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        return 201, {"kind": "Status", "apiVersion": "v1", "status": "Success", "code": 201}

    def _create(self, path: str, body: Body) -> tuple[int, Body]:
        at = f"{path}/{body['metadata']['name']}"
        if at in self.at:
            name = body["metadata"]["name"]
            raise Rejected(409, "AlreadyExists", f'"{name}" already exists')
        _valid(path, body)
        return 201, self.add(at, body)

    def _update(self, path: str, body: Body) -> tuple[int, Body]:
        held = self._found(path)
        version = body["metadata"].get("resourceVersion")
        if not version:
            raise Rejected(422, "Invalid", "metadata.resourceVersion: must be specified")
        if version != held["metadata"]["resourceVersion"]:
            raise Rejected(
                409, "Conflict", "the object has been modified; please apply your changes"
            )
        _valid(path.rpartition("/")[0], body)
        self.at[path] = body
        return 200, self._stamped(body)

    def _patch(self, path: str, body: Body, kind: str) -> tuple[int, Body]:
        status = path.endswith("/status")
        held = self._found(path.removesuffix("/status"))
        # A subresource takes its own part of the object and drops the rest without a word.
        part = {k: v for k, v in body.items() if (k == "status") == status}
        if kind == "application/strategic-merge-patch+json":
            _by_type(held, part)
        elif kind != "application/merge-patch+json":
            raise Rejected(415, "UnsupportedMediaType", f"{kind} is not supported")
        _merge(held, part)
        return 200, self._stamped(held)

    def _stamped(self, body: Body) -> Body:
        self.version += 1
        body["metadata"]["resourceVersion"] = str(self.version)
        return body


def chosen(item: Body, query: dict[str, list[str]]) -> bool:
    for wanted in ",".join(query.get("fieldSelector", [])).split(","):
        name, _, value = wanted.partition("=")
        found: Any = item
        for part in filter(None, name.split(".")):
            found = found[part]
        if name and found != value:
            return False
    return True


def _by_type(held: Body, part: Body) -> None:
    new = part.get("status", {}).pop("conditions", [])
    old = held.setdefault("status", {}).setdefault("conditions", [])
    for condition in new:
        same = [one for one in old if one["type"] == condition["type"]]
        same[0].update(condition) if same else old.append(condition)


def _merge(held: Body, part: Body) -> None:
    for key, value in part.items():
        if value is None:
            held.pop(key, None)
        elif isinstance(value, dict):
            _merge(held.setdefault(key, {}), value)
        else:
            held[key] = value


def _valid(path: str, body: Body) -> None:
    kind = path.rpartition("/")[2]
    problem = {"leases": _lease, "events": _event}.get(kind, lambda *_: "")(path, body)
    if problem:
        raise Rejected(422, "Invalid", f"{body['metadata']['name']} is invalid: {problem}")


def _lease(_path: str, body: Body) -> str:
    spec = body["spec"]
    for name in ("renewTime", "acquireTime"):
        if name in spec and not _MICRO.match(spec[name]):
            return f"spec.{name}: not a MicroTime"
    return "" if spec.get("leaseDurationSeconds", 1) > 0 else "spec.leaseDurationSeconds: 0"


def _event(path: str, body: Body) -> str:
    if body.get("apiVersion") != "events.k8s.io/v1" or not _MICRO.match(body["eventTime"]):
        return "eventTime: must be a MicroTime"
    datetime.fromisoformat(body["eventTime"])
    space = space_of(path)
    if body["regarding"].get("namespace", "default") != space:
        return "regarding.namespace: does not match event.namespace"
    for name, most in (("reason", 128), ("action", 128), ("note", 1024)):
        if not 0 < len(body[name].encode()) <= most:
            return f"{name}: 1 to {most} bytes"
    if not body.get("reportingController") or not body.get("reportingInstance"):
        return "reportingController: required"
    return "" if body["type"] in {"Normal", "Warning"} else "type: has invalid value"
