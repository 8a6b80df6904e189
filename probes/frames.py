"""How a reader child talks to the agent: length-prefixed frames on a pipe."""

from __future__ import annotations

import struct
from typing import NamedTuple

_HEAD = struct.Struct("<IB")

DOING = 0
"""Kind of the frame that says what the child does next: a sign of life, but no result yet."""


class Frame(NamedTuple):
    """One message; `kind` is 0-255, its payload's meaning belongs to the reader's own protocol."""

    kind: int
    payload: bytes


def pack(kind: int, payload: bytes = b"") -> bytes:
    """The frame as it goes over the pipe."""
    return _HEAD.pack(len(payload), kind) + payload


def split(buffer: bytearray) -> list[Frame]:
    """The whole frames at the buffer's start, taken out of it; the unfinished rest stays."""
    frames, at, size = [], 0, len(buffer)
    while size - at >= _HEAD.size:
        length, kind = _HEAD.unpack_from(buffer, at)
        end = at + _HEAD.size + length
        if end > size:
            break
        frames.append(Frame(kind, bytes(buffer[at + _HEAD.size : end])))
        at = end
    del buffer[:at]
    return frames
