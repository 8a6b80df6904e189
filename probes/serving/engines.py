"""The kinds of inference server: their pages and health endpoints, as data."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

from gpudiag.probes.catalog import load


@dataclass(frozen=True, slots=True)
class Engine:
    """One kind. `pages` are beginnings of its metric names; `ready` the word for well in the JSON
    body of `health`, "" where any 2xx will do; `dead` the status that says the engine is gone.
    """

    name: str
    pages: tuple[str, ...]
    health: str
    ready: str = ""
    dead: int = 0


@cache
def engines() -> dict[str, Engine]:
    """By name."""
    rows = load.read("serving_engines.toml")["engine"]
    found = [Engine(**{**row, "pages": tuple(row["pages"])}) for row in rows]
    return {engine.name: engine for engine in found}


def of_page(names: Iterable[str]) -> Engine | None:
    """The kind whose names stand on a page: the one with most of them, None where none does."""
    counts = dict.fromkeys(engines(), 0)
    for name in names:
        for engine in engines().values():
            counts[engine.name] += name.startswith(engine.pages)
    best = max(counts, key=lambda name: counts[name])
    return engines()[best] if counts[best] else None
