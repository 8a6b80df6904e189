"""The packets of the channel: one JSON object each, typed here and bounded in what it may hold."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Literal

import msgspec

from gpudiag.probes import MAX_LINE, Labels
from gpudiag.probes.catalog import metrics

MAX_PACKET = 64 * 1024
MAX_NAME = 200
"""Longest label value or name that is taken over, in characters."""

MAX_LABELS = 8


class Malformed(ValueError):
    """A packet that is not what its kind says: counted and dropped."""


class _Packet(msgspec.Struct, frozen=True, kw_only=True):
    """Unknown keys are ignored, so that either end may be the newer one."""


class Hello(_Packet, frozen=True):
    """Who speaks; sent on every connection, and again when something in it changes."""

    pid: int
    job: str = ""
    rank: int = 0
    local_rank: int | None = None
    world_size: int | None = None
    uuid: str | None = None
    framework: str = ""
    layout: str = ""
    config: dict[str, Any] = {}


class Metrics(_Packet, frozen=True):
    """Readings at `time` as (metric, labels without job and rank, value)."""

    time: float
    values: list[tuple[str, dict[str, str], float | None]]


class Happened(_Packet, frozen=True):
    """An event of the training process."""

    time: float
    type: str
    line: str = ""
    fields: dict[str, Any] = {}


class Arrivals(_Packet, frozen=True):
    """When this rank entered collectives of a group: (number, created ns, duration ns or None)."""

    time: float
    entries: list[tuple[int, int, int | None]]
    group: str = "default"


class Reply(_Packet, frozen=True):
    """The answer to the command `id`."""

    id: str
    ok: bool
    detail: str = ""
    fields: dict[str, Any] = {}


class Bye(_Packet, frozen=True):
    """The process ends by itself: `clean`, or by an exception whose text is `line`."""

    reason: Literal["clean", "exception"] = "clean"
    line: str = ""


class Exit(_Packet, frozen=True):
    """A parent tells how its child `pid` ended: `code` is negative for a signal."""

    time: float
    pid: int
    code: int
    job: str = ""
    name: str = ""


class _Kind(msgspec.Struct):
    kind: str


Packet = Hello | Metrics | Happened | Arrivals | Reply | Bye | Exit

_PART = re.compile(r"_(bucket|sum|count)$")
_DROPPED = "gpudiag_hook_records_dropped_total"

_KINDS: dict[str, type[Packet]] = {
    "hello": Hello,
    "metrics": Metrics,
    "event": Happened,
    "arrivals": Arrivals,
    "reply": Reply,
    "bye": Bye,
    "exit": Exit,
}


def parse(data: bytes) -> Packet | None:
    """The packet in `data`; None for a kind this agent does not know, raises `Malformed`."""
    if len(data) > MAX_PACKET:
        raise Malformed("longer than 64 KiB")
    try:
        kind = _KINDS.get(msgspec.json.decode(data, type=_Kind).kind)
        return msgspec.json.decode(data, type=kind, strict=False) if kind else None
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _lenient(data)


def _lenient(data: bytes) -> Packet | None:
    # Python's json writes NaN and Infinity, which JSON does not have: a loss may well be one.
    try:
        plain = json.loads(data)
        kind = _KINDS.get(plain["kind"])
        return msgspec.convert(plain, type=kind, strict=False) if kind else None
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise Malformed(str(error)) from error


def readings(packet: Metrics) -> Iterator[tuple[str, Labels, float]]:
    """The readings that the catalogue knows; a value that is no number is absent."""
    for metric, pairs, value in packet.values:
        fits = _known(metric) and len(pairs) <= MAX_LABELS
        if fits and value is not None and not math.isnan(value):
            yield metric, bounded(pairs), value


@lru_cache(maxsize=1024)
def _known(metric: str) -> bool:
    """Whether a training process may report it: of its own source, and no part of its identity."""
    family = _PART.sub("", metric)
    known = metrics().get(metric) or metrics().get(family)
    if known is None or known.kind == "info":
        return False
    histogram = known.kind == "histogram"
    return (known.source == "torch" or metric == _DROPPED) and histogram == (family != metric)


def bounded(pairs: dict[str, Any]) -> Labels:
    """Label pairs, sorted, with values cut to `MAX_NAME` characters."""
    return tuple(sorted((name, str(value)[:MAX_NAME]) for name, value in pairs.items()))


def line_of(text: str) -> str:
    """A line that came from outside, cut to what an event may hold."""
    return text[:MAX_LINE]
