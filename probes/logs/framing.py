"""The lines inside a container log: what the runtime wrapped around them is taken off again.

CRI runtimes (/var/log/containers) write `TIME STREAM P|F TEXT`, where P is a part that goes on;
docker's json-file driver writes one JSON object a line, of which a part has no newline at its end.
"""

from __future__ import annotations

import json
import re
from datetime import datetime
from typing import NamedTuple

MAX_JOINED = 65536
"""Bytes of one line put together from parts; what comes after is cut."""

_CRI = re.compile(
    rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d)) (\w+) ([FP])(?: |$)"
)
_DOCKER = b'{"log":'


class Unframed(NamedTuple):
    """A whole line and, where the runtime stamped it, when it was written (epoch seconds)."""

    raw: bytes
    time: float | None = None


class Framing:
    """Takes the lines of one file; its first line tells how the file is written."""

    def __init__(self) -> None:
        self._kind: str | None = None
        self._parts: dict[bytes, bytes] = {}

    def whole(self, raw: bytes) -> Unframed | None:
        """The line that this one completes; None for a part that goes on."""
        if self._kind is None and raw.strip():
            self._kind = "cri" if _CRI.match(raw) else "docker" if raw.startswith(_DOCKER) else ""
        if self._kind == "cri":
            return self._cri(raw)
        return self._docker(raw) if self._kind == "docker" else Unframed(raw)

    def _cri(self, raw: bytes) -> Unframed | None:
        head = _CRI.match(raw)
        if not head:
            return Unframed(raw)
        text = self._joined(head[2], raw[head.end() :], ended=head[3] == b"F")
        return None if text is None else Unframed(text, _epoch(head[1].decode()))

    def _docker(self, raw: bytes) -> Unframed | None:
        try:
            record = json.loads(raw)
            log = str(record["log"]).encode("utf-8", "replace")
        except (ValueError, KeyError, TypeError, RecursionError):
            return Unframed(raw)
        stream = str(record.get("stream", "")).encode("utf-8", "replace")
        text = self._joined(stream, log.rstrip(b"\r\n"), ended=log.endswith(b"\n"))
        return None if text is None else Unframed(text, _epoch(str(record.get("time", ""))))

    def _joined(self, stream: bytes, text: bytes, *, ended: bool) -> bytes | None:
        whole = (self._parts.pop(stream, b"") + text)[:MAX_JOINED]
        if ended:
            return whole
        # There are two streams; a file that claims more may not fill the memory.
        if len(self._parts) < 4:
            self._parts[stream] = whole
        return None


def _epoch(text: str) -> float | None:
    try:
        # Runtimes write nanoseconds, of which Python reads six digits.
        return datetime.fromisoformat(re.sub(r"(\.\d{6})\d+", r"\1", text)).timestamp()
    except (ValueError, OverflowError):
        return None
