"""A synchronous client straight into an ASGI application, no socket between."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

import httpx
from starlette.applications import Starlette


@dataclass(frozen=True)
class Client:
    """Requests to `app` under the name of `base_url`."""

    app: Starlette
    base_url: str = "http://localhost:9440"

    def get(self, path: str, headers: Mapping[str, str] | None = None) -> httpx.Response:
        return self.request("GET", path, headers)

    def request(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str] | None = None,
        content: bytes | None = None,
    ) -> httpx.Response:
        async def ask() -> httpx.Response:
            transport = httpx.ASGITransport(app=self.app)
            async with httpx.AsyncClient(transport=transport, base_url=self.base_url) as client:
                return await client.request(method, path, headers=headers, content=content)

        return asyncio.run(ask())
