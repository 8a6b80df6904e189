"""The web server around the application, in its leanest set-up: h11 on asyncio, no websockets."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import uvicorn
from starlette.types import ASGIApp

MOST_CONNECTIONS = 512
"""Beyond these a request gets 503 at once, so that a storm cannot take the agent's memory."""


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals are the agent's: uvicorn would raise them again and end us before the save."""
        yield


def make_server(app: ASGIApp, host: str, port: int) -> uvicorn.Server:
    """A server to `await serve()` on the agent's own loop; set `should_exit` to end it."""
    config = uvicorn.Config(
        app,
        host=host,
        port=port,
        loop="asyncio",
        http="h11",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=MOST_CONNECTIONS,
        timeout_graceful_shutdown=2,
    )
    return _Server(config)
