"""Flight-recorder dumps that appear in a folder, handed on when all that came have been written."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

SETTLE_SECONDS = 5.0
"""A hang's ranks dump within seconds of each other; so long nothing may change."""

MAX_DUMPS = 4096
_NAME = re.compile(r".*\D\d{1,6}(?:\.json|\.pickle|\.pkl)?$|\d{1,6}$")


class _State(NamedTuple):
    size: int
    changed: int


class Dumps:
    """Watches `folder`; what lies in it at the first look is old."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._told: dict[Path, _State] | None = None
        self._last: dict[Path, _State] = {}
        self._since = 0.0

    def new(self, now: float) -> list[Path]:
        """The dumps of a hang, once: all that are new when nothing has changed for a while."""
        seen = self._look()
        if self._told is None:
            self._told = seen
        if seen != self._last:
            self._last, self._since = seen, now
        fresh = [path for path, state in seen.items() if self._told.get(path) != state]
        if not fresh or now - self._since < SETTLE_SECONDS:
            return []
        self._told = seen
        return sorted(fresh)

    def _look(self) -> dict[Path, _State]:
        found = {}
        # Raises `OSError` where there is no such folder.
        for path in sorted(self._folder.iterdir())[:MAX_DUMPS]:
            if not _NAME.match(path.name) or not path.is_file():
                continue
            of = path.stat()
            if of.st_size:
                found[path] = _State(of.st_size, of.st_mtime_ns)
        return found
