"""Closer looks over HTTP: what they found, and by token one more at a job that runs."""

from __future__ import annotations

import asyncio
from typing import Any, Protocol

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from gpudiag.agent.exporters.answering import answered
from gpudiag.agent.exporters.control import refused


class Looking(Protocol):
    """The escalator, as far as HTTP may see and ask it."""

    def captures(self) -> list[dict[str, Any]]: ...

    def look(self, job: str, rank: int) -> bool: ...


def routes(looking: Looking, token: str) -> list[Route]:
    """The list of captures, and the request for one: it is answered before the look has ended."""

    async def listed(_: Request) -> Response:
        return answered({"captures": looking.captures()})

    async def asked(request: Request) -> Response:
        if refusal := refused(token, request):
            return refusal
        job, rank = request.path_params["job"], request.path_params["rank"]
        done = await asyncio.to_thread(looking.look, job, rank)
        return answered({"done": done}, 202 if done else 503)

    return [
        Route("/api/v1/captures", listed),
        Route("/api/v1/captures/{job}/{rank:int}", asked, methods=["POST"]),
    ]
