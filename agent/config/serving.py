"""The section `probes.serving`: whose metric pages and health are looked at."""

from __future__ import annotations

from typing import Annotated

import msgspec

from gpudiag.agent.config.base import ProbeSettings, Section
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


def server(of: ServingServer, headers: dict[str, str]) -> Server:
    """As the probe wants it; `headers` with their secrets read."""
    return Server(of.name, of.url, of.engine, of.page, of.health, headers)
