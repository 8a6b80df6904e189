"""Where reading stands in every log, kept in a file over restarts of the agent."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gpudiag.probes.logs.tail import Position

VERSION = 1
MAX_BYTES = 4 << 20


class Positions:
    """The file at `path`; None keeps nothing.

    `known` is None where nothing usable was kept, or it was kept for other `patterns`: then what
    is there already is old.
    """

    def __init__(self, path: Path | None, patterns: Sequence[str]) -> None:
        self._path, self._patterns = path, list(patterns)
        self._saved = ""
        self.known = _read(path, self._patterns) if path else None

    def save(self, positions: Mapping[Path, Position], files: Sequence[Path]) -> None:
        """Keep where reading stands now, and which `files` were told; raises `OSError`."""
        if self._path is None:
            return
        logs = {str(path): list(position) for path, position in positions.items()}
        logs.update({str(path): [] for path in files})
        text = json.dumps({"version": VERSION, "patterns": self._patterns, "logs": logs})
        if text == self._saved:
            return
        new = self._path.with_suffix(".new")
        with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            file.write(text)
        new.replace(self._path)
        self._saved = text


def _read(path: Path, patterns: list[str]) -> dict[Path, Position | None] | None:
    with contextlib.suppress(
        OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError
    ):
        with path.open("rb") as file:
            kept = json.loads(file.read(MAX_BYTES))
        if kept["version"] == VERSION and kept["patterns"] == patterns:
            return {Path(name): _position(row) for name, row in kept["logs"].items()}
    return None


def _position(row: list[Any]) -> Position | None:
    return Position(int(row[0]), int(row[1]), max(int(row[2]), 0), str(row[3])) if row else None
