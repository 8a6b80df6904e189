"""Findings on disk: what fires survives a restart, what resolved is kept for 30 days."""

from __future__ import annotations

import logging
import sqlite3
import threading
import time
from collections.abc import Iterable
from pathlib import Path

import msgspec

from gpudiag.agent.databases import opened
from gpudiag.agent.findings.finding import Finding
from gpudiag.probes.errors import GpudiagError

log = logging.getLogger(__name__)

KEPT_SECONDS = 30 * 86400.0
SCHEMA_VERSION = 1

LOCK_SECONDS = 0.2
"""How long to wait for whoever holds the file: all readers of findings wait meanwhile."""

_TABLES = """
CREATE TABLE IF NOT EXISTS findings (
    id TEXT NOT NULL, raised_at REAL NOT NULL, state TEXT NOT NULL, ended_at REAL,
    json BLOB NOT NULL,
    PRIMARY KEY (id, raised_at)
)"""


_DISK = (
    *(sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR),
    *(sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM),
)
"""What sqlite says of a disk that refuses: the file itself may be sound."""


_BETWEEN = """
SELECT json FROM findings WHERE raised_at <= ? AND (ended_at IS NULL OR ended_at >= ?)
ORDER BY raised_at DESC"""


class Store:
    """One sqlite file of findings. A disk that refuses is told once and tried again next time.

    A file that sqlite or msgspec cannot read is moved aside to `NAME.corrupt-SECONDS`, and a
    fresh one begun: losing history is better than not starting. One that somebody deletes is
    made again, with all that fires.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.trouble = ""
        self._lock = threading.Lock()
        self._db: sqlite3.Connection | None = None
        self._unsaved: dict[tuple[str, float], Finding] = {}
        try:
            self._carried = self._begin()
        except (sqlite3.Error, OSError) as error:
            self._refused(error)
            self._carried = []
        self._firing = {(f.id, f.raised_at or f.since): f for f in self._carried}

    def firing(self) -> list[Finding]:
        """The findings that were firing when the last agent stopped, however it stopped."""
        return self._carried

    def save(self, changed: Iterable[Finding], now: float) -> None:
        """Write changed findings at once; what the disk refuses is kept for the next call."""
        with self._lock:
            self._save(changed, now)

    def _save(self, changed: Iterable[Finding], now: float) -> None:
        for finding in changed:
            if finding.raised_at is not None:
                self._unsaved[finding.id, finding.raised_at] = finding
        self._firing |= self._unsaved
        self._firing = {key: f for key, f in self._firing.items() if f.state == "firing"}
        # A deleted file would go on taking what nobody will ever read.
        if self._db is not None and not self.path.exists():
            self.close()
            self._unsaved = self._firing | self._unsaved
        if not self._unsaved:
            return
        try:
            self._write(now)
        except (sqlite3.Error, OSError) as error:
            self._refused(error)
        else:
            self._unsaved.clear()
            self.trouble = ""

    def _write(self, now: float) -> None:
        with self._file() as db:
            db.executemany(
                "INSERT OR REPLACE INTO findings VALUES (?, ?, ?, ?, ?)",
                [_row(finding) for finding in self._unsaved.values()],
            )
            db.execute("DELETE FROM findings WHERE ended_at < ?", (now - KEPT_SECONDS,))

    def between(self, since: float, until: float) -> list[Finding]:
        """Findings that were firing at any moment from `since` to `until`, newest first.

        From any thread; raises `GpudiagError` where the file cannot be read.
        """
        try:
            with self._lock:
                rows = self._file().execute(_BETWEEN, (until, since)).fetchall()
        except (sqlite3.Error, OSError) as error:
            raise GpudiagError(f"cannot read findings in {self.path}: {error}") from error
        return [_decode(blob) for (blob,) in rows]

    def close(self) -> None:
        """Close the file; what was saved is safe without it."""
        if self._db is not None:
            self._db.close()
            self._db = None

    def _file(self) -> sqlite3.Connection:
        if self._db is None:
            self._db = opened(self.path, _TABLES, SCHEMA_VERSION, timeout=LOCK_SECONDS)
        return self._db

    def _begin(self) -> list[Finding]:
        try:
            if self.path.exists() and not self.path.is_file():
                raise sqlite3.DatabaseError("it is no file")
            rows = self._file().execute("SELECT json FROM findings WHERE state = 'firing'")
            return [_decode(blob) for (blob,) in rows]
        except (sqlite3.DatabaseError, msgspec.MsgspecError) as error:
            self.close()
            if getattr(error, "sqlite_errorcode", 0) & 0xFF in _DISK:
                raise
            self._set_aside(error)
            self._file()
            return []

    def _set_aside(self, error: Exception) -> None:
        aside = self.path.with_name(f"{self.path.name}.corrupt-{int(time.time())}")
        self.path.replace(aside)
        for suffix in ("-wal", "-shm"):
            self.path.with_name(self.path.name + suffix).unlink(missing_ok=True)
        log.error("cannot read %s (%s): moved it to %s and began anew", self.path, error, aside)

    def _refused(self, error: Exception) -> None:
        trouble = f"cannot save findings in {self.path}: {error}; kept in memory meanwhile"
        if trouble != self.trouble:
            log.error("%s", trouble)
        self.trouble = trouble


def _row(finding: Finding) -> tuple[str, float, str, float | None, bytes]:
    raised = finding.raised_at or finding.since
    return finding.id, raised, finding.state, finding.resolved_at, msgspec.json.encode(finding)


def _decode(blob: bytes) -> Finding:
    return msgspec.json.decode(blob, type=Finding)
