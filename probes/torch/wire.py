"""How a packet is written for the agent: one JSON object of at most 64 KiB."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from typing import Any

from gpudiag.probes.torch.meter import Value

LIMIT = 65536
LINE = 4096


def encode(packet: Mapping[str, Any]) -> bytes | None:
    """The packet as bytes; None where it is larger than the agent would take."""
    data = json.dumps(packet, separators=(",", ":"), allow_nan=False, default=str).encode()
    return data if len(data) <= LIMIT else None


def decode(data: bytes) -> dict[str, Any] | None:
    """The packet, None where it is not one JSON object."""
    try:
        packet = json.loads(data)
    except ValueError:
        return None
    return packet if isinstance(packet, dict) else None


def metrics(time: float, values: Iterable[Value]) -> dict[str, Any]:
    """A packet of values; a value that is not finite says nothing and is left out."""
    kept = [value for value in values if math.isfinite(value[2])]
    return {"kind": "metrics", "time": time, "values": kept}


def event(time: float, type_: str, line: str = "", **fields: Any) -> dict[str, Any]:
    """A packet of something that happened at `time` (epoch seconds)."""
    return {"kind": "event", "time": time, "type": type_, "line": line[:LINE], "fields": fields}


def reply(id_: str, ok: bool, detail: str = "", **fields: Any) -> dict[str, Any]:
    """The answer to the command `id_`."""
    return {"kind": "reply", "id": id_, "ok": ok, "detail": detail[:LINE], "fields": fields}
