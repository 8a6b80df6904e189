"""How other exporters name what gpudiag knows: one file per exporter, read as data."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args

from gpudiag.probes.catalog import metrics
from gpudiag.probes.errors import UsageError

DialectKind = Literal["plain", "clock_event_bits", "last_xid", "sum", "max"]

_PARTS = ("_bucket", "_sum", "_count")
"""What a histogram is exposed as."""


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a foreign name means: our metric, the factor to its unit, labels to add or to keep.

    `kind` is plain; clock_event_bits, a bit mask that becomes a series per reason; last_xid, a
    gauge that holds the last code for ever and becomes a count of its changes; sum or max, several
    series (of processes, of reasons) that are one of ours. `values` gives our word for a label's
    value, by our label and theirs; `keep` and `rename` say which labels stay, and how we call them;
    `le` is the factor to a histogram's bounds.
    """

    to: str
    factor: float = 1.0
    add: tuple[tuple[str, str], ...] = ()
    keep: tuple[str, ...] = ()
    rename: tuple[tuple[str, str], ...] = ()
    values: Mapping[tuple[str, str], str] = field(default_factory=dict)
    kind: DialectKind = "plain"
    le: float = 1.0


@dataclass(frozen=True, slots=True)
class Dialect:
    """One exporter. Of two that tell the same of a GPU, the lower `rank` is believed.

    `labels` maps its label names to ours, all others are dropped; `uuid_prefix` is put before a
    UUID that lacks it.
    """

    name: str
    rank: int
    prefix: tuple[str, ...]
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
    meanings: dict[str, Meaning] = {}
    for row in table["metric"]:
        meanings |= _meanings(name, row)
    return Dialect(
        name=name,
        rank=table["rank"],
        prefix=tuple(table["prefix"]),
        labels=table["labels"],
        meanings=meanings,
        uuid_prefix=table.get("uuid_prefix", ""),
    )


def _meanings(name: str, row: dict[str, Any]) -> dict[str, Meaning]:
    """By foreign name; a histogram has three of them, of which one counts in no unit."""
    if row.get("kind") != "histogram":
        return dict.fromkeys(row["from"], _meaning(name, row))
    found: dict[str, Meaning] = {}
    for part in _PARTS:
        factor = row.get("factor", 1.0) if part == "_sum" else 1.0
        keep = [*row.get("keep", ()), "le"]
        plain = {**row, "kind": row.get("join", "sum"), "factor": factor, "keep": keep}
        whole = replace(_meaning(name, plain), to=row["to"] + part, le=row.get("factor", 1.0))
        found |= dict.fromkeys((foreign + part for foreign in row["from"]), whole)
    return found


def _meaning(name: str, row: dict[str, Any]) -> Meaning:
    kind = row.get("kind", "plain")
    if row["to"] not in metrics() or kind not in get_args(DialectKind):
        raise UsageError(f"dialect {name}: {row['from'][0]} becomes what is not in the catalogue")
    return Meaning(
        to=row["to"],
        factor=float(row.get("factor", 1.0)),
        add=tuple(sorted(row.get("add", {}).items())),
        keep=tuple(row.get("keep", ())),
        rename=tuple(row.get("rename", {}).items()),
        values={
            (label, theirs): ours
            for label, words in row.get("values", {}).items()
            for theirs, ours in words.items()
        },
        kind=kind,
    )
