"""What the state folder holds, read without disturbing the agent that may be writing it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec

from gpudiag.agent.actions.audit import Line
from gpudiag.agent.engine import window_for
from gpudiag.agent.findings.finding import Finding
from gpudiag.agent.findings.remark_store import Remarks
from gpudiag.agent.rules import RULES
from gpudiag.agent.window import Window
from gpudiag.agent.window.archive import Archive
from gpudiag.probes.errors import GpudiagError

MAX_HISTORY_BYTES = 512 * 1024**2
MAX_LINES = 1000


@contextmanager
def _reading(path: Path) -> Iterator[sqlite3.Connection]:
    """The file, to read only; raises `GpudiagError` where it is not there or cannot be read."""
    if not path.is_file():
        raise GpudiagError(f"there is no {path}")
    try:
        db = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=1.0)
        try:
            yield db
        finally:
            db.close()
    except (sqlite3.Error, msgspec.MsgspecError) as error:
        raise GpudiagError(f"cannot read {path}: {error}") from error


def finding(state: Path, name: str, now: float) -> Finding | None:
    """The newest finding of that id, with what people said of it; None where none was kept."""
    query = "SELECT json FROM findings WHERE id = ? ORDER BY raised_at DESC LIMIT 1"
    with _reading(state / "findings.db") as db:
        rows = db.execute(query, (name,)).fetchall()
    if not rows:
        return None
    found = msgspec.json.decode(rows[0][0], type=Finding)
    remarks = state / "remarks.db"
    return Remarks(remarks).on([found], now)[0] if remarks.is_file() else found


def window(state: Path, scratch: Path, now: float) -> Window:
    """The history as last saved, from a copy in `scratch`: at most a minute is missing."""
    source, copy = state / "window.db", scratch / "window.db"
    with _reading(source) as db:
        if source.stat().st_size > MAX_HISTORY_BYTES:
            raise GpudiagError(f"{source} is larger than {MAX_HISTORY_BYTES} bytes")
        target = sqlite3.connect(copy)
        db.backup(target)
        target.close()
    held = window_for(RULES, archive=Archive(copy, report=_never_mind))
    held.restore(now)
    return held


def _never_mind(_: str) -> None:
    """The copy is thrown away: what is wrong with it shows in what it gives."""


def audit(state: Path, name: str) -> list[Any]:
    """The newest audit lines about that finding, oldest first."""
    found: list[Line] = []
    for path in (state / "audit.jsonl.1", state / "audit.jsonl"):
        if path.is_file():
            with path.open("rb") as lines:
                for line in lines:
                    with suppress(msgspec.MsgspecError, UnicodeDecodeError):
                        told = msgspec.json.decode(line, type=Line)
                        found += [told] if told.plan.finding == name else []
    plain: list[Any] = msgspec.to_builtins(found[-MAX_LINES:])
    return plain


def snapshots(state: Path) -> list[dict[str, Any]]:
    """Name, size and time of the memory snapshots and censuses there are, oldest first."""
    folder = state / "snapshots"
    held = [(p, p.stat()) for p in folder.iterdir() if p.is_file()] if folder.is_dir() else []
    return [
        {"name": path.name, "bytes": known.st_size, "at": known.st_mtime}
        for path, known in sorted(held, key=lambda one: one[1].st_mtime)
    ]
