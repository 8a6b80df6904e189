"""Keeps a stranger's web page away from the agent: a host check and security headers."""

from __future__ import annotations

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]"})

_POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; "
    "img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class Guard:
    """Wraps an application. `hosts` are the names it answers to; None where any will do.

    On loopback the check stops DNS rebinding: a page whose name was made to point at 127.0.0.1
    still sends its own name. A request without a Host header comes from no browser and passes.
    """

    def __init__(self, app: ASGIApp, hosts: frozenset[str] | None) -> None:
        self._app = app
        self._hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request: refused with 421 under a foreign name, else answered with the headers."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        host = Headers(scope=scope).get("host", "")
        app = self._app if self._knows(host) else _refusal(host)
        await app(scope, receive, send_guarded)

    def _knows(self, host: str) -> bool:
        name = host if host.endswith("]") else host.rpartition(":")[0] or host
        return self._hosts is None or not host or name.lower() in self._hosts


def _refusal(host: str) -> ASGIApp:
    text = f"This agent does not answer to the name {host[:100]!r}: use localhost or 127.0.0.1.\n"
    return PlainTextResponse(text, status_code=421)
