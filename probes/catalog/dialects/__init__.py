"""How other exporters name what gpudiag knows: one file per exporter, read as data."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args

from gpudiag.probes.catalog import metrics
from gpudiag.probes.errors import UsageError

DialectKind = Literal["plain", "clock_event_bits", "last_xid"]


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a foreign name means: our metric, the factor to its unit, labels to add or to keep.

    `kind` is plain; clock_event_bits, a bit mask that becomes a series per reason; or last_xid, a
    gauge that holds the last code for ever and becomes a count of its changes.
    """

    to: str
    factor: float = 1.0
    add: tuple[tuple[str, str], ...] = ()
    keep: tuple[str, ...] = ()
    kind: DialectKind = "plain"


@dataclass(frozen=True, slots=True)
class Dialect:
    """One exporter. Of two that tell the same of a GPU, the lower `rank` is believed.

    `labels` maps its label names to ours, all others are dropped; `uuid_prefix` is put before a
    UUID that lacks it.
    """

    name: str
    rank: int
    prefix: str
    labels: dict[str, str]
    meanings: dict[str, Meaning]
    uuid_prefix: str = ""


@cache
def dialects() -> tuple[Dialect, ...]:
    """Every dialect, best rank first. Raises `UsageError` for a file that names what is not."""
    files = sorted(Path(__file__).parent.glob("*.toml"))
    found = [_dialect(path.stem, tomllib.loads(path.read_text("utf-8"))) for path in files]
    return tuple(sorted(found, key=lambda dialect: dialect.rank))


def _dialect(name: str, table: dict[str, Any]) -> Dialect:
    meanings = {foreign: _meaning(name, row) for row in table["metric"] for foreign in row["from"]}
    return Dialect(
        name=name,
        rank=table["rank"],
        prefix=table["prefix"],
        labels=table["labels"],
        meanings=meanings,
        uuid_prefix=table.get("uuid_prefix", ""),
    )


def _meaning(name: str, row: dict[str, Any]) -> Meaning:
    kind = row.get("kind", "plain")
    if row["to"] not in metrics() or kind not in get_args(DialectKind):
        raise UsageError(f"dialect {name}: {row['from'][0]} becomes what is not in the catalogue")
    return Meaning(
        to=row["to"],
        factor=float(row.get("factor", 1.0)),
        add=tuple(sorted(row.get("add", {}).items())),
        keep=tuple(row.get("keep", ())),
        kind=kind,
    )
