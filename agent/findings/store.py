"""Findings on disk: what fires survives a restart, what resolved is kept for 30 days."""

from __future__ import annotations

import logging
import os
import sqlite3
import time
from collections.abc import Iterable
from pathlib import Path

import msgspec

from gpudiag.agent.findings.finding import Finding

log = logging.getLogger(__name__)

KEPT_SECONDS = 30 * 86400.0
SCHEMA_VERSION = 1

_TABLES = """
CREATE TABLE IF NOT EXISTS findings (
    id TEXT NOT NULL, raised_at REAL NOT NULL, state TEXT NOT NULL, ended_at REAL,
    json BLOB NOT NULL,
    PRIMARY KEY (id, raised_at)
)"""


class Store:
    """One sqlite file of findings. A write that fails is told once and tried again next time.

    A file that sqlite or msgspec cannot read is moved aside to `NAME.corrupt-SECONDS`, and a
    fresh one begun: losing history is better than not starting.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.trouble = ""
        self._unsaved: dict[tuple[str, float], Finding] = {}
        try:
            self._open()
            self._carried = self._read_firing()
        except (sqlite3.DatabaseError, msgspec.MsgspecError) as error:
            self._set_aside(error)
            self._open()
            self._carried = []

    def firing(self) -> list[Finding]:
        """The findings that were firing when the last agent stopped, however it stopped."""
        return self._carried

    def save(self, changed: Iterable[Finding], now: float) -> None:
        """Write changed findings at once; what the disk refuses is kept for the next call."""
        for finding in changed:
            if finding.raised_at is not None:
                self._unsaved[finding.id, finding.raised_at] = finding
        if not self._unsaved:
            return
        try:
            with self._db:
                self._db.executemany(
                    "INSERT OR REPLACE INTO findings VALUES (?, ?, ?, ?, ?)",
                    [_row(finding) for finding in self._unsaved.values()],
                )
                self._db.execute("DELETE FROM findings WHERE ended_at < ?", (now - KEPT_SECONDS,))
        except sqlite3.Error as error:
            self._tell(f"cannot save findings in {self.path}: {error}; kept in memory meanwhile")
        else:
            self._unsaved.clear()
            self.trouble = ""

    def between(self, since: float, until: float) -> list[Finding]:
        """Findings that were firing at any moment from `since` to `until`, newest first."""
        rows = self._db.execute(
            "SELECT json FROM findings WHERE raised_at <= ? AND (ended_at IS NULL OR ended_at >= ?)"
            " ORDER BY raised_at DESC",
            (until, since),
        )
        return [_decode(blob) for (blob,) in rows]

    def close(self) -> None:
        """Close the file; what was saved is safe without it."""
        self._db.close()

    def _open(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        # Evidence may quote command lines: the file is its owner's alone.
        os.close(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600))
        self._db = sqlite3.connect(self.path, check_same_thread=False)
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute("PRAGMA synchronous=FULL")
        version = self._db.execute("PRAGMA user_version").fetchone()[0]
        if version > SCHEMA_VERSION:
            raise sqlite3.DatabaseError(f"written by a newer gpudiag (schema {version})")
        with self._db:
            self._db.execute(_TABLES)
            self._db.execute(f"PRAGMA user_version={SCHEMA_VERSION}")

    def _read_firing(self) -> list[Finding]:
        rows = self._db.execute("SELECT json FROM findings WHERE state = 'firing'")
        return [_decode(blob) for (blob,) in rows]

    def _set_aside(self, error: Exception) -> None:
        aside = self.path.with_name(f"{self.path.name}.corrupt-{int(time.time())}")
        self.path.replace(aside)
        for suffix in ("-wal", "-shm"):
            self.path.with_name(self.path.name + suffix).unlink(missing_ok=True)
        log.error("cannot read %s (%s): moved it to %s and began anew", self.path, error, aside)

    def _tell(self, trouble: str) -> None:
        if trouble != self.trouble:
            log.error("%s", trouble)
        self.trouble = trouble


def _row(finding: Finding) -> tuple[str, float, str, float | None, bytes]:
    raised = finding.raised_at or finding.since
    return finding.id, raised, finding.state, finding.resolved_at, msgspec.json.encode(finding)


def _decode(blob: bytes) -> Finding:
    return msgspec.json.decode(blob, type=Finding)
