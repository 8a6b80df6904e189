"""Acting over HTTP: to look, to answer the workload's probes, and to change by token only."""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from gpudiag.agent.exporters.answering import answered
from gpudiag.probes.errors import GpudiagError

MAX_ACTOR = 100


class Workload(Protocol):
    """The flags that the workload's own probes ask for."""

    def why_unready(self) -> str: ...

    def why_dead(self) -> str: ...


class Control(Protocol):
    """Acting, as far as HTTP may see and tell it. `token` is "" where nobody may tell."""

    @property
    def token(self) -> str: ...

    @property
    def workload(self) -> Workload | None: ...

    def shown(self) -> dict[str, Any]: ...

    def approve(self, plan: str, actor: str) -> bool: ...

    def deny(self, plan: str, actor: str) -> bool: ...

    def reset_breaker(self, actor: str) -> bool: ...


def routes(control: Control) -> list[Route]:
    """The list of actions, three that change something, and the workload's two probes."""

    def listed(_: Request) -> Response:
        try:
            return answered(control.shown())
        except GpudiagError as error:
            return answered({"error": str(error)}, 503)

    def told(change: Callable[[Request, str], bool]) -> Callable[[Request], Response]:
        def answer(request: Request) -> Response:
            if refusal := refused(control.token, request):
                return refusal
            try:
                done = change(request, actor(request))
            except (GpudiagError, OSError) as error:
                return answered({"error": str(error)}, 503)
            return answered({"done": done}, 200 if done else 404)

        return answer

    def plan(request: Request) -> str:
        return str(request.path_params["plan"])

    changes: dict[str, Callable[[Request, str], bool]] = {
        "/api/v1/actions/{plan}/approve": lambda r, who: control.approve(plan(r), who),
        "/api/v1/actions/{plan}/deny": lambda r, who: control.deny(plan(r), who),
        "/api/v1/breaker/reset": lambda _, who: control.reset_breaker(who),
    }
    return [
        Route("/api/v1/actions", listed),
        *(Route(path, told(change), methods=["POST"]) for path, change in changes.items()),
        *(_probes(control.workload) if control.workload else ()),
    ]


def refused(token: str, request: Request) -> Response | None:
    """The answer to whoever lacks the token, in the same time however wrong theirs is."""
    if not token:
        return answered({"error": "no token is configured: set actions.token"}, 403)
    shown = request.headers.get("authorization", "").encode()
    if hmac.compare_digest(shown, f"Bearer {token}".encode()):
        return None
    return answered({"error": "show the token: Authorization: Bearer ..."}, 401)


def actor(request: Request) -> str:
    """Who says to be the one that changes something; the token is what was checked."""
    return request.headers.get("x-actor", "")[:MAX_ACTOR] or "someone with the token"


def _probes(workload: Workload) -> list[Route]:
    # In the loop itself: threads that wait for a slow ledger must not make a probe fail.
    def answering(why: Callable[[], str]) -> Callable[[Request], Awaitable[Response]]:
        async def answer(_: Request) -> Response:
            reason = why()
            return PlainTextResponse(f"{reason or 'ok'}\n", 503 if reason else 200)

        return answer

    return [
        Route("/workload/readyz", answering(workload.why_unready)),
        Route("/workload/livez", answering(workload.why_dead)),
    ]
