"""What the agent serves to be read: the runbooks, and pictures of the dashboards."""

from __future__ import annotations

import asyncio

from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route

from gpudiag.agent import pages
from gpudiag.agent.exporters.page.page import Page


def routes(page: Page) -> list[Route]:
    """Everything below `/runbooks/`."""

    async def runbook(request: Request) -> Response:
        symptom = request.path_params["symptom"]
        html = await asyncio.to_thread(page.runbook, symptom)
        if html is None:
            return PlainTextResponse(
                f"There is no runbook {symptom[:100]!r}: /runbooks/ lists all.\n", 404
            )
        return HTMLResponse(html)

    async def runbooks(_: Request) -> Response:
        return HTMLResponse(await asyncio.to_thread(page.runbooks))

    async def pictures(_: Request) -> Response:
        return HTMLResponse(await asyncio.to_thread(page.pictures))

    async def picture(request: Request) -> Response:
        content = await asyncio.to_thread(pages.picture, request.path_params["name"])
        if content is None:
            return PlainTextResponse("No such picture: /runbooks/pictures/ has all.\n", 404)
        return Response(content, media_type="image/png")

    return [
        Route("/runbooks/", runbooks),
        Route("/runbooks/{symptom}", runbook),
        Route("/runbooks/pictures/", pictures),
        Route("/runbooks/pictures/{name}", picture),
    ]
