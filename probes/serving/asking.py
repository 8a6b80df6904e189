"""The questions of one look at one server: all of them within one time, each bounded in size."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlsplit

from gpudiag.probes.serving.canary_fetch import Exchange

SECONDS = 4.0
"""For all questions of a look together: less than the cadence of 5 s."""

MAX_PAGE_BYTES = 8 * 1024**2

Open = Callable[[str, float], Exchange]
"""An exchange with an address until a moment of the monotonic clock."""


def exchange(url: str, deadline: float) -> Exchange:
    """The real one."""
    return Exchange(url, deadline, limit=MAX_PAGE_BYTES)


@dataclass(frozen=True, slots=True)
class Asking:
    """Asks a server at `url`, with `headers` that may hold a key."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    open: Open = exchange
    deadline: float = field(default_factory=lambda: time.monotonic() + SECONDS)

    def get(self, path: str) -> bytes:
        """The body of a good answer from a path, or from a whole address. Raises `Unanswered`."""
        base, rest = self.url, path
        if "://" in path:
            parts = urlsplit(path)
            base = f"{parts.scheme}://{parts.netloc}"
            rest = parts.path + (f"?{parts.query}" if parts.query else "")
        asking = self.open(base, self.deadline)
        try:
            return b"".join(asking.ask("GET", rest or "/", {"Accept": "*/*", **self.headers}))
        finally:
            asking.close()

    def json(self, path: str) -> Any:
        """What the body says; None where it is no JSON. Raises `Unanswered`."""
        try:
            return json.loads(self.get(path))
        # A body nested without end is no JSON of anybody's.
        except (ValueError, RecursionError):
            return None


def in_path(name: str) -> str:
    """A model's name as a part of a path."""
    return quote(name, safe="")
