"""The section `probes.serving`: whose metric pages and health are looked at."""

from __future__ import annotations

from typing import Annotated

import msgspec

from gpudiag.agent.config import address
from gpudiag.agent.config.base import ProbeSettings, Section
from gpudiag.probes.serving.engines import engines
from gpudiag.probes.serving.scrape import Server

Address = Annotated[str, msgspec.Meta(pattern=r"^https?://[^/]+")]


class ServingServer(Section, frozen=True):
    """One server; what is empty is told by its page or is its kind's own."""

    name: Annotated[str, msgspec.Meta(min_length=1)]
    url: Address
    engine: str = ""
    page: str = "/metrics"
    health: str = ""
    headers: dict[str, str] = {}


class ServingSettings(ProbeSettings, frozen=True):
    """`discover` also looks at the listening ports of this network namespace."""

    servers: tuple[ServingServer, ...] = ()
    discover: bool = False


def fault(settings: ServingSettings) -> str:
    """What is wrong with the servers, in words; empty where nothing is."""
    names = [server.name for server in settings.servers]
    for server in settings.servers:
        why = "the name stands there twice" if names.count(server.name) > 1 else ""
        why = why or address.fault(server.url) or _path(server) or _kind(server)
        if why:
            return f"{server.name}: {why}"
    return ""


def _path(server: ServingServer) -> str:
    for key, path in (("page", server.page), ("health", server.health)):
        if not path or path.startswith("/"):
            continue
        if "://" not in path:
            return f"{key}: write a path such as /metrics, or a whole address"
        # The page's own query is its business: some exporters choose what to show by it.
        if why := address.fault(path.partition("?")[0]):
            return f"{key}: {why}"
    return "" if server.page else "page: write a path such as /metrics"


def _kind(server: ServingServer) -> str:
    if server.engine and server.engine not in engines():
        return f"engine: no such kind of server; there are {', '.join(engines())}"
    return ""


def server(of: ServingServer, headers: dict[str, str]) -> Server:
    """As the probe wants it; `headers` with their secrets read."""
    return Server(of.name, of.url, of.engine, of.page, of.health, headers)
