"""The HTTP application: `/metrics`, the JSON API, the runbooks and the page under one guard."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from importlib.resources import files

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route

from gpudiag.agent.exporters import api, reading
from gpudiag.agent.exporters.guard import LOOPBACK_NAMES, Guard
from gpudiag.agent.exporters.page.page import Page
from gpudiag.agent.exporters.view import Snapshots

_ASSETS = {"style.css": "text/css", "page.js": "text/javascript", "icon.svg": "image/svg+xml"}


def create_app(
    snapshots: Snapshots,
    hosts: frozenset[str] | None = LOOPBACK_NAMES,
    more: Sequence[Route] = (),
) -> Starlette:
    """The application over one view; only `more` can change anything, and asks for its token.

    `hosts` are the Host names it answers to, None for any: `LOOPBACK_NAMES` while it listens on
    loopback, None where the operator chose to listen on the network.
    """
    page = Page(snapshots)

    async def whole(_: Request) -> Response:
        return HTMLResponse(await asyncio.to_thread(page.whole))

    async def fragment(_: Request) -> Response:
        return HTMLResponse(await asyncio.to_thread(page.fragment))

    async def asset(request: Request) -> Response:
        name = request.path_params["name"]
        if name not in _ASSETS:
            return PlainTextResponse("Not found.\n", 404)
        text = files("gpudiag.agent.exporters.page").joinpath(name).read_text("utf-8")
        return Response(text, media_type=_ASSETS[name])

    return Starlette(
        routes=[
            *more,
            *api.routes(snapshots),
            Route("/", whole),
            Route("/fragment", fragment),
            *reading.routes(page),
            Route("/static/{name}", asset),
        ],
        middleware=[Middleware(Guard, hosts=hosts)],
    )
