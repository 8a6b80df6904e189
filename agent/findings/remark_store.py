"""What people said of findings, on disk: a restart forgets none of it."""

from __future__ import annotations

import logging
import sqlite3
import threading
from collections.abc import Iterable
from pathlib import Path

import msgspec

from gpudiag.agent.databases import opened
from gpudiag.agent.findings.finding import Finding
from gpudiag.agent.findings.remarks import Acknowledgement, Review
from gpudiag.agent.findings.store import KEPT_SECONDS
from gpudiag.probes.errors import GpudiagError

log = logging.getLogger(__name__)

SCHEMA_VERSION = 1
LOCK_SECONDS = 1.0

_TABLES = """
CREATE TABLE IF NOT EXISTS acknowledgement (id TEXT PRIMARY KEY, until REAL, json BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS review (
    id TEXT NOT NULL, raised_at REAL NOT NULL, json BLOB NOT NULL, PRIMARY KEY (id, raised_at)
);"""


class Remarks:
    """One sqlite file, read once and then held in memory; any thread may ask and tell.

    Acknowledgements go by the finding's id, so that one that comes and goes is still somebody's;
    a review belongs to the one time it fired. A file that cannot be read leaves `trouble`, and
    whoever acts must then take every finding for acknowledged.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.trouble = ""
        self.version = 0
        """Grows with each change."""
        self._lock = threading.Lock()
        self._acknowledged: dict[str, Acknowledgement] = {}
        self._reviews: dict[tuple[str, float], Review] = {}
        try:
            self._load()
        except (sqlite3.Error, OSError, msgspec.MsgspecError) as error:
            self.trouble = f"what people said of findings cannot be read in {path}: {error}"
            log.error("%s; move the file away to begin anew", self.trouble)

    def acknowledgement(self, finding: str, now: float) -> Acknowledgement | None:
        """Who is on it as of `now`; None where nobody is, or no longer."""
        with self._lock:
            said = self._acknowledged.get(finding)
        return said if said is not None and now < said.until else None

    def on(self, findings: Iterable[Finding], now: float) -> list[Finding]:
        """The findings with what was said of them."""
        return [self._with(finding, now) for finding in findings]

    def _with(self, finding: Finding, now: float) -> Finding:
        resolved = finding.state == "resolved"
        said = None if resolved else self.acknowledgement(finding.id, now)
        with self._lock:
            review = self._reviews.get((finding.id, finding.raised_at or 0.0))
        if said is None and review is None:
            return finding
        return msgspec.structs.replace(finding, acknowledged=said, review=review)

    def acknowledge(self, finding: str, said: Acknowledgement) -> None:
        """Keep it over any other; raises `GpudiagError` where the disk refuses: it is not kept."""
        row = (finding, said.until, msgspec.json.encode(said))
        with self._lock:
            self._write("INSERT OR REPLACE INTO acknowledgement VALUES (?, ?, ?)", row, said.at)
            self._acknowledged[finding] = said

    def withdraw(self, finding: str, now: float) -> bool:
        """Nobody is on it any more; False where nobody was."""
        with self._lock:
            self._write("DELETE FROM acknowledgement WHERE id = ?", (finding,), now)
            said = self._acknowledged.pop(finding, None)
        return said is not None and now < said.until

    def review(self, finding: Finding, review: Review) -> None:
        """Keep the verdict over an earlier one; raises `GpudiagError` where the disk refuses."""
        raised = finding.raised_at or 0.0
        row = (finding.id, raised, msgspec.json.encode(review))
        with self._lock:
            self._write("INSERT OR REPLACE INTO review VALUES (?, ?, ?)", row, review.at)
            self._reviews[finding.id, raised] = review

    def _load(self) -> None:
        db = opened(self.path, _TABLES, SCHEMA_VERSION, timeout=LOCK_SECONDS)
        try:
            for name, blob in db.execute("SELECT id, json FROM acknowledgement"):
                self._acknowledged[name] = msgspec.json.decode(blob, type=Acknowledgement)
            for name, raised, blob in db.execute("SELECT id, raised_at, json FROM review"):
                self._reviews[name, raised] = msgspec.json.decode(blob, type=Review)
        finally:
            db.close()

    def _write(self, statement: str, row: tuple[object, ...], now: float) -> None:
        if self.trouble:
            raise GpudiagError(f"{self.trouble}: move the file away and start the agent again")
        try:
            db = opened(self.path, _TABLES, SCHEMA_VERSION, timeout=LOCK_SECONDS)
            try:
                with db:
                    db.execute(statement, row)
                    db.execute("DELETE FROM acknowledgement WHERE until < ?", (now,))
                    db.execute("DELETE FROM review WHERE raised_at < ?", (now - KEPT_SECONDS,))
                self.version += 1
            finally:
                db.close()
        except (sqlite3.Error, OSError) as error:
            raise GpudiagError(f"cannot keep it in {self.path}: {error}") from error
