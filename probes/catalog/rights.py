"""What the agent must be allowed to do, and what goes blind without it, from `rights.toml`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Literal

from gpudiag.probes.catalog import load

Role = Literal["node", "sidecar"]


@dataclass(frozen=True, slots=True)
class Right:
    """One right: `pod` and `machine` say how to give it, `roles` which agents want it."""

    id: str
    feature: str
    right: str
    pod: str
    machine: str
    blind: str
    roles: tuple[Role, ...]


@cache
def rights() -> dict[str, Right]:
    """Every right by id, in the order of the file."""
    rows = (load.build(Right, row) for row in load.read("rights.toml")["right"])
    return load.keyed(rows, lambda right: right.id)
