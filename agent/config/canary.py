"""The section `probes.canary`: which servers are asked a minimal request, and what about."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from gpudiag.agent.config import address
from gpudiag.agent.config.base import Duration, ProbeSettings, Section
from gpudiag.probes.serving import compare
from gpudiag.probes.serving.canary_api import Api, Gives, apis
from gpudiag.probes.serving.canary_target import Target
from gpudiag.probes.serving.compare import Measure

MIN_CADENCE = 1.0
MAX_TIMEOUT = 600.0


class CanaryServer(Section, frozen=True):
    """One server and its question; what is empty or null is the API's own."""

    name: str
    url: str
    api: str
    model: str = ""
    prompt: str = ""
    max_tokens: Annotated[int, msgspec.Meta(ge=1, le=512)] = 24
    stream: bool = False
    timeout: Duration = Duration(20.0)
    api_key: str = ""
    expect: str = ""
    baseline: str = ""
    measure: Measure | None = None
    tolerance: Annotated[float, msgspec.Meta(ge=0.0, le=1.0)] | None = None
    path: str = ""
    body: dict[str, Any] = {}
    answer: str | None = None
    gives: Gives | None = None


class CanarySettings(ProbeSettings, frozen=True):
    """The canary: its servers, and what it may cost each of them."""

    servers: tuple[CanaryServer, ...] = ()
    requests_per_hour: Annotated[int, msgspec.Meta(ge=1, le=3600)] = 120
    tokens_per_hour: Annotated[int, msgspec.Meta(ge=1)] = 20_000
    busy_waiting: Annotated[int, msgspec.Meta(ge=1)] = 5


def target(server: CanaryServer) -> Target:
    """The server as the probe wants it; only for one without `fault`."""
    api = _api(server)
    measure = server.measure or compare.DEFAULT[api.gives]
    tolerance = compare.TOLERANCE[measure] if server.tolerance is None else server.tolerance
    return Target(
        name=server.name,
        url=server.url,
        api=api,
        measure=measure,
        tolerance=tolerance,
        prompt=server.prompt or api.prompt,
        model=server.model,
        max_tokens=server.max_tokens,
        stream=server.stream,
        timeout=float(server.timeout),
        api_key=server.api_key,
        expect=server.expect,
        baseline=server.baseline,
        body=server.body,
    )


def fault(settings: CanarySettings) -> str:
    """What is wrong with the section, in words; empty where nothing is."""
    if settings.cadence is not None and settings.cadence < MIN_CADENCE:
        return f"the shortest cadence of a canary is {MIN_CADENCE:g}s"
    names = [server.name for server in settings.servers]
    for server in settings.servers:
        why = "the name stands there twice" if names.count(server.name) > 1 else ""
        why = why or _address(server) or _asking(server)
        if not why and server.baseline and server.baseline not in names:
            why = f"baseline: no server {server.baseline!r} is configured here"
        if why:
            return f"{server.name or 'a server without a name'}: {why}"
    return ""


def _address(server: CanaryServer) -> str:
    why = address.fault(server.url)
    if why or not server.name:
        return why or f"give it a name and a url {address.WANTED}"
    if server.api_key and not (server.api_key[0] in "@$" and len(server.api_key) > 1):
        return "api_key: write @/path/of/a/file or $VARIABLE, not the key itself"
    return "" if 0 < server.timeout <= MAX_TIMEOUT else "timeout: between 0s and 10m"


def _asking(server: CanaryServer) -> str:
    if server.api not in apis():
        return f"api: no such API; there are {', '.join(apis())}"
    api = _api(server)
    measures = compare.MEASURES[api.gives]
    wrong = {
        "api json: give path, body and answer (a JSON pointer)": api.name == "json"
        and not (server.path and server.body and server.answer is not None),
        "api triton-infer: give model, and body with its inputs": api.name == "triton-infer"
        and not (server.model and server.body),
        "path and answer begin with /": not all(
            pointer.startswith("/") for pointer in (server.path, server.answer) if pointer
        ),
        f"stream: {api.name} does not stream": server.stream and not api.stream,
        f"measure: {api.gives} is compared by {', '.join(measures)}": server.measure is not None
        and server.measure not in measures,
    }
    return next((why for why, holds in wrong.items() if holds), "")


def _api(server: CanaryServer) -> Api:
    changes: dict[str, Any] = {
        "path": server.path or None,
        "answer": None if server.answer is None else (server.answer,),
        "gives": server.gives,
    }
    return apis()[server.api].changed({k: v for k, v in changes.items() if v is not None})
