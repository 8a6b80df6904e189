"""One look at one server: its page, its health, and what both say."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache

from gpudiag.probes import Sample, labels
from gpudiag.probes.catalog.dialects import dialects
from gpudiag.probes.serving.asking import Asking, Open, exchange
from gpudiag.probes.serving.canary_fetch import Unanswered
from gpudiag.probes.serving.copies import Copies
from gpudiag.probes.serving.engines import Engine, engines, of_page
from gpudiag.probes.serving.health import Health, health, models
from gpudiag.probes.serving.pages import Row, rows


@dataclass(frozen=True, slots=True)
class Server:
    """Where a server is, as configured or found. `engine` is a kind's name, "" to tell it by the
    page; `page` and `health` are paths or whole addresses; `headers` may hold a key.
    """

    name: str
    url: str
    engine: str = ""
    page: str = "/metrics"
    health: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Looked:
    """What one look gave; `trouble` is why there is no page, "" where there is one.

    `state` changes when something happened to the server, of which `words` tell.
    """

    samples: tuple[Sample, ...]
    trouble: str = ""
    state: tuple[bool | None, ...] = ()
    words: str = ""


def look(server: Server, now: float, copies: Copies, open_: Open = exchange) -> Looked:
    """Ask for page and health; what is not answered is not told."""
    asking = Asking(server.url, server.headers, open_)
    name = labels(server=server.name)
    try:
        text = asking.get(server.page).decode("utf-8", "replace")
    except Unanswered as error:
        return _without_page(server, now, error, asking)
    wanted = known_prefixes()
    found = list(rows(text, wanted))
    kind = engines().get(server.engine) or of_page({row[0] for row in found})
    trouble = "" if kind else f"its page {server.page} has no name of a known server"
    if kind and copies.repeated(server.name, kind, text):
        found, trouble = [], f"its page {server.page} is a copy that has not moved for a minute"
    said = health(kind, server.health, asking)
    samples = (
        Sample("gpudiag_serving_up", name, now, 1.0),
        *said.samples(server.name, now),
        *models(kind, server.name, _models(found), now, asking),
        *_told(server, found, now),
    )
    return _looked(server, samples, trouble, said)


@cache
def known_names() -> frozenset[str]:
    """Names that some dialect translates: all else on a page is left there."""
    return frozenset(name for dialect in dialects() for name in dialect.meanings)


@cache
def known_prefixes() -> tuple[str, ...]:
    """Beginnings of the names that inference servers give."""
    told = {engine.dialect for engine in engines().values()}
    return tuple({p for dialect in dialects() if dialect.name in told for p in dialect.prefix})


def _without_page(server: Server, now: float, error: Unanswered, asking: Asking) -> Looked:
    """An HTTP error is an answer: the server is up, though its page is not to be had."""
    up = error.status > 0
    kind: Engine | None = engines().get(server.engine)
    said = health(kind, server.health, asking) if up else Health(words=str(error))
    name = labels(server=server.name)
    samples = (Sample("gpudiag_serving_up", name, now, float(up)), *said.samples(server.name, now))
    return _looked(server, samples, str(error), said, up=up)


def _looked(
    server: Server, samples: tuple[Sample, ...], trouble: str, said: Health, *, up: bool = True
) -> Looked:
    told = f"{server.name}: {trouble}" if trouble else ""
    state = (up, said.ready, said.engine_up)
    return Looked(
        samples, told, state, f"{server.name} {'is up' if up else 'is down'}: {said.words}"
    )


def _models(found: list[Row]) -> set[str]:
    return {value for _, pairs, _ in found for name, value in pairs if name == "model"}


def _told(server: Server, found: list[Row], now: float) -> Iterator[Sample]:
    wanted = known_names()
    for metric, pairs, value in found:
        if metric in wanted:
            ours = dict(pairs) | {"server": server.name}
            yield Sample(metric, tuple(sorted(ours.items())), now, value)
