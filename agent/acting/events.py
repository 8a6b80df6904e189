"""Mirrors decisions as Events of the cluster: `kubectl describe` of pod, Job or node shows them."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from gpudiag.agent.actions.audit import Line
from gpudiag.agent.kubernetes.client import Api
from gpudiag.agent.kubernetes.errors import ApiError, Refused
from gpudiag.agent.kubernetes.pods import pod_path, read
from gpudiag.agent.kubernetes.times import micro

log = logging.getLogger(__name__)

QUEUED = 100
MAX_NOTE = 1024
"""Bytes of a note and characters of names that the API takes, by its validation of events."""
MAX_NAME = 128

WARNINGS = frozenset({"failed", "not_verified", "worse", "breaker"})


@dataclass(frozen=True, slots=True)
class Regarding:
    """What an Event is about; `namespace` is "" for a node."""

    api: str
    kind: str
    name: str
    namespace: str = ""
    uid: str = ""


About = Callable[[], Sequence[Regarding]]
"""Asked in the sink's own thread, for it may ask the API."""


class Events:
    """Posts from a thread of its own: an API that hangs must not keep anybody from acting."""

    def __init__(self, api: Api, about: About, reporter: str) -> None:
        self._api = api
        self._about = about
        self._reporter = reporter[:MAX_NAME]
        self._told = ""
        self._lines: queue.Queue[Line] = queue.Queue(QUEUED)
        threading.Thread(target=self._run, name="kubernetes-events", daemon=True).start()

    def __call__(self, line: Line) -> None:
        """Queue one line; where a hundred wait already, it is dropped and the log says so."""
        try:
            self._lines.put_nowait(line)
        except queue.Full:
            self._warn("the API is slow: decisions are not told, the audit file has them")

    def _run(self) -> None:
        while True:
            line = self._lines.get()
            for regarding in self._about():
                self._post(line, regarding)

    def _post(self, line: Line, regarding: Regarding) -> None:
        # Events of what has no namespace are kept in this one.
        space = regarding.namespace or "default"
        body = event(line, regarding, self._reporter)
        try:
            self._api.send("POST", f"/apis/events.k8s.io/v1/namespaces/{space}/events", body)
            self._told = ""
        except ApiError as error:
            if not (isinstance(error, Refused) and error.status == 409):
                self._warn(str(error))

    def _warn(self, text: str) -> None:
        if text != self._told:
            log.warning("no event in the cluster: %s", text)
        self._told = text


def event(line: Line, regarding: Regarding, reporter: str) -> dict[str, Any]:
    """One audit line as an Event of events.k8s.io/v1."""
    plan = line.plan
    note = f"{plan.action} at {plan.target} for {plan.symptom}/{plan.cause} ({line.actor})"
    name = f"gpudiag.{plan.id}.{int(line.time * 1e6):x}.{regarding.kind.lower()}"
    about = {"apiVersion": regarding.api, "kind": regarding.kind, "name": regarding.name}
    optional = {"namespace": regarding.namespace, "uid": regarding.uid}
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": regarding.namespace or "default"},
        "eventTime": micro(line.time),
        "reportingController": "gpudiag",
        "reportingInstance": reporter,
        "type": "Warning" if line.decision in WARNINGS else "Normal",
        "reason": f"Action{_camel(line.decision)}",
        "action": _camel(plan.action),
        "note": f"{note}: {line.why}".encode()[:MAX_NOTE].decode("utf-8", "ignore"),
        "regarding": about | {key: value for key, value in optional.items() if value},
    }


def of_node(name: str) -> About:
    """The node; `kubectl describe node` looks for its name in the place of a uid."""
    node = Regarding("v1", "Node", name, uid=name)
    return lambda: (node,)


def of_pod(api: Api, name: str) -> About:
    """The agent's own pod and, once the API has told which, the controller that it belongs to."""
    found: list[Regarding] = []

    def about() -> Sequence[Regarding]:
        if not found:
            found.extend(_looked_up(api, name))
        return found or (Regarding("v1", "Pod", name, api.account.namespace()),)

    return about


def _looked_up(api: Api, name: str) -> list[Regarding]:
    try:
        pod = read(api.get(pod_path(api.account.namespace(), name)))
    except ApiError as error:
        log.info("events are told of pod %s alone: %s", name, error)
        return []
    own = [Regarding("v1", "Pod", name, pod.namespace, pod.uid)]
    if pod.owner is None or pod.owner.kind == "Node":
        return own
    by = pod.owner
    return [*own, Regarding(by.api, by.kind, by.name, pod.namespace, by.uid)]


def _camel(text: str) -> str:
    return "".join(word.capitalize() for word in text.split("_"))
