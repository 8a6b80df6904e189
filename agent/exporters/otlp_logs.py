"""Pushes findings' events to an OpenTelemetry collector over OTLP/HTTP, as log records."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from http import HTTPStatus
from http.client import HTTPException
from typing import Any, NamedTuple
from urllib.error import HTTPError
from urllib.request import HTTPRedirectHandler, Request, build_opener

from gpudiag.agent.exporters.otlp_events import Changes, Happening
from gpudiag.agent.exporters.otlp_sending import Pusher
from gpudiag.agent.exporters.view import AgentInfo, Snapshot, Snapshots
from gpudiag.probes.errors import GpudiagError, UsageError

MAX_WAITING = 1000
"""Events kept for a collector that is away; beyond them the oldest are lost, and counted."""

MAX_AT_ONCE = 200

_LATER = frozenset(
    {
        *(HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.BAD_GATEWAY),
        *(HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.GATEWAY_TIMEOUT),
    }
)
"""What the OTLP specification lets a client send again; all else is refused for good."""


class _Stay(HTTPRedirectHandler):
    """The headers may be keys: they go to the configured address and nowhere else."""

    def redirect_request(self, *_: Any) -> None:
        """Follow none: the answer is then an error like any other."""


_OPENER = build_opener(_Stay)


class _Answer(NamedTuple):
    """What came of one request: "" or why it did not arrive, and whether to send it again."""

    error: str
    retry: bool


class OtlpLogPusher(Pusher):
    """Sends what changed every `interval` seconds, each event once, in one attempt at a time.

    `endpoint` is the full URL (`http://collector:4318/v1/logs`); `actions` gives the ledger as the
    API does. What the collector cannot take now waits for the next round.
    """

    def __init__(
        self,
        snapshots: Snapshots,
        endpoint: str,
        *,
        actions: Callable[[], Mapping[str, Any]] = dict,
        interval: float = 10.0,
        timeout: float = 5.0,
        headers: Mapping[str, str] | None = None,
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        if not endpoint.startswith(("http://", "https://")):
            raise UsageError(f"{endpoint!r} is no address: write http://HOST:4318/v1/logs")
        super().__init__(snapshots, "otlp-logs", "findings", endpoint, interval)
        self.lost = 0
        self._endpoint = endpoint
        self._actions = actions
        self._timeout = timeout
        self._headers = dict(headers or {})
        self._environ = environ
        self._changes = Changes()
        self._waiting: deque[Happening] = deque()

    def _round(self, snapshot: Snapshot) -> str | None:
        """What changed, after what waits."""
        self._gather(self._changes.of_findings(snapshot))
        self._gather(self._changes.of_actions(self._ledger()))
        return self._send(snapshot.info, snapshot.now) if self._waiting else None

    def _ledger(self) -> Sequence[Mapping[str, Any]]:
        try:
            listed: Sequence[Mapping[str, Any]] = self._actions().get("actions", [])
        except GpudiagError:
            # Whoever acts says so already; findings must go out all the same.
            return []
        return listed

    def _gather(self, happened: Iterable[Happening]) -> None:
        self._waiting.extend(happened)
        while len(self._waiting) > MAX_WAITING:
            self._waiting.popleft()
            self.lost += 1

    def _send(self, info: AgentInfo, now: float) -> str:
        from gpudiag.agent.exporters.otlp_log_data import encoded

        batch = [self._waiting[n] for n in range(min(MAX_AT_ONCE, len(self._waiting)))]
        answer = self._post(encoded(batch, info, self._environ, now))
        if answer.retry:
            return answer.error
        for _ in batch:
            self._waiting.popleft()
        self.lost += len(batch) if answer.error else 0
        return answer.error

    def _post(self, body: bytes) -> _Answer:
        headers = {"Content-Type": "application/x-protobuf", **self._headers}
        try:
            request = Request(self._endpoint, data=body, headers=headers)  # noqa: S310
            with _OPENER.open(request, timeout=self._timeout):
                return _Answer("", retry=False)
        except HTTPError as error:
            with error:
                return _Answer(f"{error.code} {error.reason}", retry=error.code in _LATER)
        except (OSError, HTTPException, ValueError) as error:
            return _Answer(str(getattr(error, "reason", error)), retry=True)
