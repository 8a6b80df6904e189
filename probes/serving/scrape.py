"""One look at one server: its page, its health, and what both say in our words."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache

from gpudiag.probes import Sample, labels
from gpudiag.probes.catalog.dialects import dialects
from gpudiag.probes.serving.canary_fetch import Exchange, Unanswered
from gpudiag.probes.serving.engines import Engine, engines, of_page
from gpudiag.probes.serving.pages import Row, rows

SECONDS = 4.0
"""For the page and for the health together, each: less than the cadence of 5 s."""

MAX_PAGE_BYTES = 8 * 1024**2
CONFIGURED = "vllm:cache_config_info"


@dataclass(frozen=True, slots=True)
class Server:
    """Where a server is, as configured or found. `engine` is a kind's name, "" to tell it by the
    page; `headers` may hold a key.
    """

    name: str
    url: str
    engine: str = ""
    page: str = "/metrics"
    health: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Looked:
    """What one look gave; `trouble` is why there is no page, "" where there is one."""

    samples: tuple[Sample, ...]
    trouble: str = ""


def look(server: Server, now: float, exchange: Callable[[str, float], Exchange]) -> Looked:
    """Ask for page and health; a server that does not answer is down, and nothing else is told."""
    name = labels(server=server.name)
    try:
        text = _asked(server, server.page, exchange).decode("utf-8", "replace")
    except Unanswered as error:
        return Looked((Sample("gpudiag_serving_up", name, now, 0.0),), f"{server.name}: {error}")
    found = list(rows(text))
    engine = engines().get(server.engine) or of_page(row[0] for row in found)
    if engine is None and not server.engine:
        trouble = f"{server.name}: its page {server.page} has no name of a known server"
        return Looked((Sample("gpudiag_serving_up", name, now, 1.0),), trouble)
    return Looked(
        (
            Sample("gpudiag_serving_up", name, now, 1.0),
            *_health(server, engine, now, exchange),
            *_told(server, found, now),
            *_configured(server, found, now),
        )
    )


@cache
def known_names() -> frozenset[str]:
    """Names that some dialect translates: all else on a page is left there."""
    return frozenset(name for dialect in dialects() for name in dialect.meanings)


def _asked(server: Server, path: str, exchange: Callable[[str, float], Exchange]) -> bytes:
    asking = exchange(server.url, time.monotonic() + SECONDS)
    try:
        return b"".join(asking.ask("GET", path, {"Accept": "*/*", **server.headers}))
    finally:
        asking.close()


def _health(
    server: Server, engine: Engine | None, now: float, exchange: Callable[[str, float], Exchange]
) -> Iterator[Sample]:
    path = server.health or (engine.health if engine else "")
    if not path:
        return
    name = labels(server=server.name)
    status = 200
    try:
        body = _asked(server, path, exchange)
        well = not (engine and engine.ready) or _word(body) == engine.ready
    except Unanswered as error:
        if error.outcome == "busy":
            # A full queue is no illness: restarting a busy server for it is the known mistake.
            return
        status, well = error.status, False
    yield Sample("gpudiag_serving_ready", name, now, float(well))
    if engine and engine.dead and status:
        yield Sample("gpudiag_serving_engine_up", name, now, float(status != engine.dead))


def _word(body: bytes) -> str:
    try:
        told = json.loads(body)
    except ValueError:
        return ""
    return str(told.get("status", "")) if isinstance(told, dict) else ""


def _told(server: Server, found: list[Row], now: float) -> Iterator[Sample]:
    wanted = known_names()
    for metric, pairs, value in found:
        if metric in wanted:
            ours = dict(pairs) | {"server": server.name}
            yield Sample(metric, tuple(sorted(ours.items())), now, value)


def _configured(server: Server, found: list[Row], now: float) -> Iterator[Sample]:
    """How vLLM's cache was set up, of its info metric."""
    for metric, pairs, _ in found:
        if metric != CONFIGURED:
            continue
        told = dict(pairs)
        caching = told.get("enable_prefix_caching", "")
        of = labels(server=server.name, prefix_caching=caching.lower())
        yield Sample("gpudiag_serving_config_info", of, now, 1.0)
        try:
            tokens = int(told["block_size"]) * int(told["num_gpu_blocks"])
        except (KeyError, ValueError):
            continue
        name = labels(server=server.name, engine=told.get("engine", ""))
        yield Sample("gpudiag_serving_kv_tokens_capacity", name, now, float(tokens))
