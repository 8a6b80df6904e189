"""What a person on call says over HTTP: that somebody is on it, and whether it was right."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Annotated, Any, Protocol, TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from gpudiag.agent.exporters.answering import answered
from gpudiag.agent.exporters.control import actor, refused
from gpudiag.probes.errors import GpudiagError, UsageError

MAX_BODY = 4096
LONGEST_SECONDS = 30 * 86400.0

Told = Callable[[str, bytes, str], dict[str, Any]]
T = TypeVar("T")


class Acknowledge(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body of an acknowledgement: for how long, and why."""

    seconds: Annotated[float, msgspec.Meta(gt=0, le=LONGEST_SECONDS)]
    reason: Annotated[str, msgspec.Meta(min_length=1, max_length=500)]


class Judge(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body of a verdict."""

    right: bool
    cause: Annotated[str, msgspec.Meta(max_length=100)] = ""


class OnCall(Protocol):
    """Where it is kept. `token` is "" where nobody may tell."""

    @property
    def token(self) -> str: ...

    def acknowledge(self, finding: str, seconds: float, reason: str, actor: str) -> bool: ...

    def withdraw(self, finding: str, actor: str) -> bool: ...

    def judge(self, finding: str, right: bool, cause: str, actor: str) -> dict[str, Any] | None: ...


def routes(oncall: OnCall) -> list[Route]:
    """Three changes of a finding by its id, each by token only; 404 where there is no such one."""

    def acknowledge(finding: str, body: bytes, who: str) -> dict[str, Any]:
        said = _read(body, Acknowledge)
        return {"done": oncall.acknowledge(finding, said.seconds, said.reason, who)}

    def withdraw(finding: str, _: bytes, who: str) -> dict[str, Any]:
        return {"done": oncall.withdraw(finding, who)}

    def judge(finding: str, body: bytes, who: str) -> dict[str, Any]:
        said = _read(body, Judge)
        return {"done": False, **(oncall.judge(finding, said.right, said.cause, who) or {})}

    changes = {"acknowledge": acknowledge, "withdraw": withdraw, "verdict": judge}
    return [
        # An id may hold a slash: a mount point is one.
        Route(f"/api/v1/findings/{{finding:path}}/{name}", _telling(oncall, tell), methods=["POST"])
        for name, tell in changes.items()
    ]


def _telling(oncall: OnCall, tell: Told) -> Callable[[Request], Any]:
    async def answer(request: Request) -> Response:
        if refusal := refused(oncall.token, request):
            return refusal
        try:
            body = await _body(request)
            finding = request.path_params["finding"]
            said = await asyncio.to_thread(tell, finding, body, actor(request))
        except UsageError as error:
            return answered({"error": str(error)}, 400)
        except (GpudiagError, OSError) as error:
            return answered({"error": str(error)}, 503)
        return answered(said, 200 if said["done"] else 404)

    return answer


async def _body(request: Request) -> bytes:
    held = b""
    async for part in request.stream():
        held += part
        if len(held) > MAX_BODY:
            raise UsageError(f"the body is too long: {MAX_BODY} bytes are the most")
    return held


def _read(body: bytes, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise UsageError(f"the body is not as it must be: {error}") from error
