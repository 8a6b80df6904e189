"""The kinds of inference server: their pages, health endpoints and what they cannot tell."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import cache

from gpudiag.probes.catalog import load
from gpudiag.probes.catalog.dialects import dialects


@dataclass(frozen=True, slots=True)
class Engine:
    """One kind. `pages` are beginnings of its metric names; `ready` the word for well in the JSON
    body of `health`, "" where any 2xx will do; `dead` the status that says the engine is gone.

    `models` lists what is loaded, or with `{model}` tells of one; `pulse` are metrics of which one
    moves with each page that is made anew.
    """

    name: str
    dialect: str
    pages: tuple[str, ...]
    health: str
    ready: str = ""
    dead: int = 0
    models: str = ""
    pulse: tuple[str, ...] = ()


@cache
def engines() -> dict[str, Engine]:
    """By name, front ends first."""
    found = [load.build(Engine, row) for row in load.read("serving_engines.toml")["engine"]]
    return {engine.name: engine for engine in found}


def of_page(names: Collection[str]) -> Engine | None:
    """The kind whose names stand on a page, None where no known one does."""
    return next(
        (e for e in engines().values() if any(name.startswith(e.pages) for name in names)), None
    )


@cache
def not_told(engine: str) -> dict[str, str]:
    """Metrics that this kind of server does not tell, by name, and why. Raises `KeyError`."""
    kind = engines()[engine].dialect
    return dict(next(dialect.absent for dialect in dialects() if dialect.name == kind))
