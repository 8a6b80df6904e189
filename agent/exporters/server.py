"""The web server around the application, in its leanest set-up: h11 on asyncio, no websockets."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

MOST_CONNECTIONS = 512
"""Beyond these a request gets 503 at once, so that a storm cannot take the agent's memory."""

MOST_SOCKETS = 640
"""Beyond these one is closed unheard: a process has 1024 open files, and the probes need theirs."""

REQUEST_SECONDS = 10.0
"""How long a client may take to send a request before its connection is closed."""


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals are the agent's: uvicorn would raise them again and end us before the save."""
        yield


class _Protocol(H11Protocol):
    """uvicorn waits for ever for the rest of a request; a few hundred slow clients shut all out."""

    _patience: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > MOST_SOCKETS:
            transport.abort()
        else:
            self._watch()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_watching()
        super().connection_lost(exc)

    def _watch(self) -> None:
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop_watching()
        elif self._patience is None:
            self._patience = self.loop.call_later(REQUEST_SECONDS, self.transport.close)

    def _stop_watching(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None


def make_server(app: ASGIApp, host: str, port: int) -> uvicorn.Server:
    """A server to `await serve()` on the agent's own loop; set `should_exit` to end it."""
    config = uvicorn.Config(
        app,
        host=host,
        port=port,
        loop="asyncio",
        http=_Protocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=MOST_CONNECTIONS,
        # As many may be accepted at one go, before any of them can be turned away.
        backlog=256,
        timeout_graceful_shutdown=2,
    )
    return _Server(config)
