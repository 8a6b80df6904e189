"""One rank's flight-recorder dump: its collectives by process group, as torch 2.4-2.13 write it.

Versions 2.x add keys; unknown ones are passed over. The pickle has numbers where the JSON has
text, and no dump of gloo tells whether a collective has started.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

ROOTED = frozenset({"broadcast", "reduce", "scatter", "gather", "_broadcast_oop", "_reduce_oop"})
"""Collectives that some ranks may leave before all have entered."""


# "send 0->1", "recv 1<-0": this rank first, then the other.
_P2P = re.compile(r"(?P<way>send|recv) \d{1,9}(?:->|<-)(?P<peer>\d{1,9})")


@dataclass(frozen=True, slots=True)
class Entry:
    """One collective as this rank entered it; `created` is epoch seconds, shapes as recorded.

    `done` it has left it, `waits` it is known not to have: gloo does not tell either of most.
    """

    sequence: int
    operation: str
    inputs: str = ""
    outputs: str = ""
    types: str = ""
    done: bool = False
    waits: bool = False
    created: float = 0.0


@dataclass(frozen=True, slots=True)
class Point:
    """A send or receive that has not ended; `peer` as numbered in the group, `created` epoch s."""

    sends: bool
    peer: int
    sequence: int
    created: float


@dataclass(slots=True)
class GroupLog:
    """What one rank recorded of one process group; `ranks` are its members, () where untold."""

    name: str
    title: str = ""
    ranks: tuple[int, ...] = ()
    entries: dict[int, Entry] = field(default_factory=dict)
    points: list[Point] = field(default_factory=list)
    enqueued: int | None = None

    @property
    def last(self) -> int:
        """The number of the last collective that it entered, 0 for none."""
        return max([self.enqueued or 0, *self.entries])


@dataclass(frozen=True, slots=True)
class Dump:
    """All that one rank recorded."""

    rank: int
    groups: Mapping[str, GroupLog]


def dump_of(plain: Mapping[str, Any], rank: int | None) -> Dump | None:
    """The dump in plain objects; None where they are none, or whose it is cannot be told."""
    entries = plain.get("entries", [])
    if not isinstance(entries, list) or not ("pg_config" in plain or "pg_status" in plain):
        return None
    if rank is None:
        return None
    groups: dict[str, GroupLog] = {}
    names: dict[str, str] = {}
    for row in entries:
        if isinstance(row, dict):
            _take(groups, names, row)
    configs = plain.get("pg_config")
    for name, log in groups.items():
        log.ranks = _members(configs, name)
    _status(groups, names, plain.get("pg_status"), configs)
    return Dump(rank, groups)


def _take(groups: dict[str, GroupLog], names: dict[str, str], row: dict[str, Any]) -> None:
    told = row.get("process_group")
    pair = [str(part) for part in told] if isinstance(told, list | tuple) else []
    name = pair[0] if pair else str(row.get("pg_id", ""))
    names.setdefault(str(row.get("pg_id", "")), name)
    title = pair[1] if len(pair) > 1 else ""
    log = groups.setdefault(name, GroupLog(name, title if title != "undefined" else ""))
    if row.get("is_p2p"):
        _point(log.points, row)
        return
    sequence = _whole(row.get("collective_seq_id"))
    if sequence is not None:
        log.entries[sequence] = _entry(sequence, row)


def _point(points: list[Point], row: dict[str, Any]) -> None:
    sequence = _whole(row.get("p2p_seq_id"))
    name = str(row.get("profiling_name", "")).rpartition(":")[2]
    done = row.get("state") == "completed" or bool(row.get("retired"))
    if name == "coalesced" and done:
        points[:] = [point for point in points if point.sequence != sequence]
    elif not done and sequence is not None and (found := _P2P.fullmatch(name)):
        created = (_whole(row.get("time_created_ns")) or 0) / 1e9
        points.append(Point(found["way"] == "send", int(found["peer"]), sequence, created))


def _entry(sequence: int, row: dict[str, Any]) -> Entry:
    backend, _, operation = str(row.get("profiling_name", "")).rpartition(":")
    # With gloo "retired" is all that is told, of those that failed as well: it proves nothing
    # where all must enter before any may leave.
    gone = backend == "gloo" and bool(row.get("retired"))
    done = row.get("state") == "completed" or (gone and operation in ROOTED)
    return Entry(
        sequence=sequence,
        operation=operation[:60],
        inputs=_text(row.get("input_sizes")),
        outputs=_text(row.get("output_sizes")),
        types=_text(row.get("input_dtypes")),
        done=done,
        waits=not (done or gone),
        created=(_whole(row.get("time_created_ns")) or 0) / 1e9,
    )


def _members(configs: Any, name: str) -> tuple[int, ...]:
    if not isinstance(configs, dict):
        return ()
    # gloo writes its only group's members under no name.
    config = configs.get(name) or (configs.get("") if len(configs) == 1 else None)
    told = config.get("ranks") if isinstance(config, dict) else None
    try:
        ranks = json.loads(told) if isinstance(told, str) else told
        return tuple(sorted(int(rank) for rank in ranks or ()))
    except (ValueError, TypeError, RecursionError):
        return ()


def _status(groups: dict[str, GroupLog], names: dict[str, str], told: Any, configs: Any) -> None:
    for number, status in told.items() if isinstance(told, dict) else ():
        if not isinstance(status, dict):
            continue
        name = names.get(str(number), str(number))
        log = groups.setdefault(name, GroupLog(name, ranks=_members(configs, name)))
        last = _whole(status.get("last_enqueued_collective"))
        log.enqueued = max(last, log.enqueued or 0) if last is not None else log.enqueued


def _whole(value: Any) -> int | None:
    try:
        return int(value)
    except (TypeError, ValueError, OverflowError):
        return None


def _text(value: Any) -> str:
    parts: Iterable[Any] = value if isinstance(value, list | tuple) else ()
    return " ".join(str(part) for part in list(parts)[:8])[:160]
