"""From a catalogue file to its records; a file that breaks its own rules is refused by name."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Hashable, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeVar, cast, get_args, get_origin, get_type_hints

from gpudiag.probes.errors import UsageError

Record = TypeVar("Record")
Key = TypeVar("Key", int, str)
_RANGE = re.compile(r"([0-9]+)(?:-([0-9]+))?")


def read(name: str) -> dict[str, Any]:
    """The parsed catalogue file `name` of this package."""
    return tomllib.loads(Path(__file__).with_name(name).read_text("utf-8"))


def build(cls: type[Record], row: Mapping[str, Any]) -> Record:
    """The record of one table row. Raises `UsageError` on an unknown key, word or type."""
    hints = _hints(cast(Hashable, cls))
    if unknown := row.keys() - hints.keys():
        raise UsageError(f"{cls.__name__}: unknown keys {sorted(unknown)}, use {sorted(hints)}")
    values = {key: tuple(v) if isinstance(v, list) else v for key, v in row.items()}
    for key, value in values.items():
        _check(f"{cls.__name__}.{key}", hints[key], value)
    try:
        return cls(**values)
    except TypeError as exc:
        raise UsageError(f"{cls.__name__} {dict(row)}: {exc}") from exc


def keyed(records: Iterable[Record], key: Callable[[Record], Key]) -> dict[Key, Record]:
    """The records by key. Raises `UsageError` where two have the same."""
    found: dict[Key, Record] = {}
    for record in records:
        if key(record) in found:
            raise UsageError(f"{type(record).__name__} {key(record)} is described twice: drop one")
        found[key(record)] = record
    return found


def refuse_circle(edges: Mapping[Key, Iterable[Key]], what: str) -> None:
    """Raises `UsageError` when following `edges` can come back to where it began."""
    open_edges = {node: set(targets) & edges.keys() for node, targets in edges.items()}
    while leaves := {node for node, targets in open_edges.items() if not targets}:
        open_edges = {n: t - leaves for n, t in open_edges.items() if n not in leaves}
    if open_edges:
        raise UsageError(f"{what} runs in a circle through {sorted(open_edges)}: cut it")


def ranges(text: str) -> tuple[int, ...]:
    """The numbers of `1-3, 7`. Raises `UsageError` when it is not such a list."""
    numbers: list[int] = []
    for part in text.split(","):
        found = _RANGE.fullmatch(part.strip())
        if not found:
            raise UsageError(f"{text!r} is not a list of numbers and ranges such as '1-3, 7'")
        first, last = int(found[1]), int(found[2] or found[1])
        numbers.extend(range(first, last + 1))
    return tuple(numbers)


def _check(where: str, hint: Any, value: Any) -> None:
    if get_origin(hint) is Literal:
        if value not in get_args(hint):
            raise UsageError(f"{where}: {value!r} is not one of {', '.join(get_args(hint))}")
    elif get_origin(hint) is tuple:
        for item in value if isinstance(value, tuple) else (value,):
            _check(where, get_args(hint)[0], item)
    elif type(value) is not hint:
        raise UsageError(f"{where}: {value!r} is not of type {hint.__name__}")


@cache
def _hints(cls: Hashable) -> dict[str, Any]:
    return get_type_hints(cls)
