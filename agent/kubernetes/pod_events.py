"""What the cluster says of the agent's own pod: probes that failed, restarts, images.

Events are listed once and then watched from there; a watch that ends goes on where it stood, and
one whose place the API server has forgotten (410) begins with a list again.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

from gpudiag.agent.kubernetes.client import Api, Object
from gpudiag.agent.kubernetes.errors import ApiError, Refused
from gpudiag.agent.kubernetes.times import epoch
from gpudiag.probes import MAX_LINE, Event

log = logging.getLogger(__name__)

WATCH_SECONDS = 300
RECENT_SECONDS = 60.0
"""What happened longer ago than the window takes late samples is history, not news."""
PAUSES = (1.0, 5.0, 15.0, 60.0)
"""Seconds before asking again, longer each time it fails."""

GONE = 410


class _Forgotten(Exception):
    """The API server no longer knows the version that was watched from."""


class PodEvents:
    """A thread of its own from `start` on; `tell` gets each event as it comes.

    `container` is the agent's own, whose starts and ends are not the workload's.
    """

    def __init__(
        self,
        api: Api,
        pod: str,
        container: str,
        tell: Callable[[Event], None],
        now: Callable[[], float],
        pauses: tuple[float, ...] = PAUSES,
    ) -> None:
        self._api = api
        self._pod = pod
        self._container = container
        self._tell = tell
        self._now = now
        self._pauses = pauses
        self._version = ""
        self._said = ""
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pod-events", daemon=True)

    def start(self) -> None:
        """Begin to watch."""
        self._thread.start()

    def stop(self) -> None:
        """Watch no more; an answer that is waited for may still come."""
        self._ending.set()

    def _run(self) -> None:
        failed = 0
        while not self._ending.is_set():
            try:
                self._round()
                failed = 0
                # An API server that ends each watch at once must not be asked without a pause.
                self._ending.wait(self._pauses[0])
            except _Forgotten:
                self._version = ""
                self._ending.wait(self._pauses[0])
            except (ApiError, LookupError, TypeError, ValueError, AttributeError) as error:
                self._warn(str(error))
                self._ending.wait(self._pauses[min(failed, len(self._pauses) - 1)])
                failed += 1

    def _round(self) -> None:
        path = self._path()
        if not self._version:
            told = self._api.get(path)
            for item in told["items"]:
                self._take(item)
            self._version = told["metadata"]["resourceVersion"]
        path += f"&allowWatchBookmarks=true&resourceVersion={self._version}"
        try:
            for change in self._api.watch(path, WATCH_SECONDS):
                self._change(change["type"], change["object"])
        except Refused as no:
            if no.status == GONE:
                raise _Forgotten from no
            raise

    def _change(self, kind: str, about: Object) -> None:
        if kind == "ERROR":
            if about.get("code") == GONE:
                raise _Forgotten
            raise ApiError(f"the Kubernetes API ended a watch: {about.get('message', '')}")
        self._said = ""
        self._version = about["metadata"]["resourceVersion"]
        if kind in {"ADDED", "MODIFIED"}:
            self._take(about)

    def _take(self, told: Object) -> None:
        found = event(told)
        itself = bool(self._container) and found.fields.get("container") == self._container
        # gpudiag's own decisions are events of this pod as well.
        own = told.get("reportingComponent") == "gpudiag"
        if not own and not itself and found.time >= self._now() - RECENT_SECONDS:
            self._tell(found)

    def _path(self) -> str:
        space = self._api.account.namespace()
        chosen = quote(f"involvedObject.kind=Pod,involvedObject.name={self._pod}")
        return f"/api/v1/namespaces/{space}/events?fieldSelector={chosen}"

    def _warn(self, text: str) -> None:
        if text != self._said:
            log.warning("what the cluster says of this pod is not seen: %s", text)
        self._said = text


def event(told: Object) -> Event:
    """An Event of the core API; its time is that of the last one where several are counted."""
    about = told["involvedObject"]
    # As `kubectl get events` writes it, but for the age.
    line = f"{told['type']} {told['reason']} pod/{about['name']} {told.get('message', '')}"
    _, _, container = str(about.get("fieldPath", "")).partition("{")
    fields = {"container": container.rstrip("}")} if container else {}
    return Event(_time(told), "kubernetes", line[:MAX_LINE], fields=fields)


def _time(told: dict[str, Any]) -> float:
    series = (told.get("series") or {}).get("lastObservedTime")
    text = series or told.get("lastTimestamp") or told.get("eventTime")
    return epoch(text or told["metadata"]["creationTimestamp"])
