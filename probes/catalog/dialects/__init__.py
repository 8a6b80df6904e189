"""How other exporters name what gpudiag knows: one file per exporter, read as data."""

from __future__ import annotations

import re
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, get_args

from gpudiag.probes.catalog import metrics
from gpudiag.probes.catalog.dialects.records import Derived, Dialect, DialectKind, How, Meaning
from gpudiag.probes.errors import UsageError

__all__ = ["Derived", "Dialect", "DialectKind", "Meaning", "dialects"]

PARTS = ("_bucket", "_sum", "_count")
"""What a histogram is exposed as."""

_VERSIONS = re.compile(r"(?:[<>]=?[0-9][0-9a-z.]*)(?:,[<>]=?[0-9][0-9a-z.]*)*")


@cache
def dialects() -> tuple[Dialect, ...]:
    """Every dialect, best rank first. Raises `UsageError` for a file that names what is not."""
    files = sorted(Path(__file__).parent.glob("*.toml"))
    found = [_dialect(path.stem, tomllib.loads(path.read_text("utf-8"))) for path in files]
    return tuple(sorted(found, key=lambda dialect: dialect.rank))


def _dialect(name: str, table: dict[str, Any]) -> Dialect:
    spelled = _Spellings(table["prefix"], table.get("aliases", ()))
    meanings: defaultdict[str, list[Meaning]] = defaultdict(list)
    for number, row in enumerate(table["metric"]):
        for foreign, meaning in _meanings(name, number, row, spelled):
            meanings[foreign].append(meaning)
    known = {one.to for told in meanings.values() for one in told} | metrics().keys()
    return Dialect(
        name=name,
        rank=table["rank"],
        prefix=(*table["prefix"], *table.get("aliases", ())),
        labels=table["labels"],
        meanings={foreign: tuple(told) for foreign, told in meanings.items()},
        uuid_prefix=table.get("uuid_prefix", ""),
        identity=tuple(table.get("identity", ())),
        copies=frozenset(table.get("copies", ())),
        derived=tuple(_derived(name, row, known) for row in table.get("derived", ())),
        absent=table.get("absent", {}),
    )


class _Spellings:
    """Each way in which a name may stand on a page: below other prefixes, as a counter."""

    def __init__(self, prefixes: Iterable[str], aliases: Iterable[str]) -> None:
        self._first = next(iter(prefixes))
        self._aliases = tuple(aliases)

    def of(self, name: str, *, counter: bool) -> Iterator[str]:
        names = [name]
        if name.startswith(self._first):
            names += [alias + name.removeprefix(self._first) for alias in self._aliases]
        # Who has both (Ray) repeats the counter as a gauge: the counter comes first.
        if counter and not name.endswith("_total"):
            yield from (one + "_total" for one in names)
        yield from names


def _meanings(
    dialect: str, number: int, row: dict[str, Any], spelled: _Spellings
) -> Iterator[tuple[str, Meaning]]:
    """Foreign names with what they mean; a histogram has three, of which one counts in no unit."""
    order = 0
    unless = {s for name in row.get("unless", ()) for s in spelled.of(name, counter=True)}
    counter = row["to"].endswith("_total") or row.get("counter", False)
    for text in row["from"]:
        foreign, _, versions = (part.strip() for part in text.partition(";"))
        if versions and not _VERSIONS.fullmatch(versions):
            raise UsageError(f"dialect {dialect}: {text}: versions are written as >=0.8.5,<0.13")
        for name in spelled.of(foreign, counter=counter):
            for part, meaning in _parts(dialect, row):
                yield (
                    name + part,
                    replace(
                        meaning,
                        row=number,
                        order=order,
                        versions=versions,
                        unless=tuple(sorted(unless)),
                    ),
                )
            order += 1


def _parts(dialect: str, row: dict[str, Any]) -> Iterator[tuple[str, Meaning]]:
    if row.get("kind") != "histogram":
        yield "", _meaning(dialect, row)
        return
    for part in PARTS:
        factor = row.get("factor", 1.0) if part == "_sum" else 1.0
        keep = [*row.get("keep", ()), "le"]
        plain = {**row, "kind": "sum", "factor": factor, "keep": keep}
        whole = _meaning(dialect, plain)
        yield part, replace(whole, to=row["to"] + part, le=row.get("factor", 1.0))


def _meaning(name: str, row: dict[str, Any]) -> Meaning:
    kind = row.get("kind", "plain")
    if not _ours_or_own(row["to"]) or kind not in get_args(DialectKind):
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
        where=tuple(sorted(row.get("where", {}).items())),
        reads=row.get("reads", ""),
    )


def _ours_or_own(name: str) -> bool:
    """A metric of the catalogue, a histogram's part of one, or a name without our prefix."""
    whole = next((name.removesuffix(p) for p in PARTS if name.endswith(p)), name)
    return not name.startswith("gpudiag_") or name in metrics() or whole in metrics()


def _derived(name: str, row: dict[str, Any], known: Iterable[str]) -> Derived:
    how = next((how for how in get_args(How) if how in row), None)
    if how is None or row["to"] not in metrics() or not set(row[how]) <= set(known):
        raise UsageError(f"dialect {name}: {row['to']} is derived from what is not told")
    first, second = row[how]
    return Derived(row["to"], (first, second), how)
