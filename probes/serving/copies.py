"""Pages that are shown again instead of being made anew, as by a cache before a server."""

from __future__ import annotations

import threading
from collections.abc import Callable
from hashlib import blake2b

from gpudiag.probes.serving.engines import Engine

LONG_SECONDS = 60.0
"""To make a page costs some ms of CPU: within a dozen of them the process' own CPU time moves."""


class Copies:
    """Remembers of each server its last page; any thread may ask."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._pages: dict[str, tuple[bytes, float]] = {}

    def repeated(self, server: str, engine: Engine, text: str) -> bool:
        """Whether the page has been the same to the letter for long, though it holds a pulse."""
        if not any(f"\n{name}" in text or text.startswith(name) for name in engine.pulse):
            return False
        now, digest = self._monotonic(), blake2b(text.encode(), digest_size=16).digest()
        with self._lock:
            before, since = self._pages.get(server, (b"", now))
            self._pages[server] = digest, since if before == digest else now
            return before == digest and now - since >= LONG_SECONDS
