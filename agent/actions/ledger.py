"""What was decided and done, on disk before it is done: a restart forgets nothing.

A file that cannot be read stops all acting until a person has looked: it is never begun anew.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Literal, TypeVar

import msgspec

from gpudiag.agent.actions.contract import SPENDS, Plan
from gpudiag.agent.databases import opened
from gpudiag.probes.catalog import Severity
from gpudiag.probes.errors import GpudiagError

T = TypeVar("T")

SCHEMA_VERSION = 1
KEPT_SECONDS = 90 * 86400.0

State = Literal[
    "waiting",
    "approved",
    "denied",
    "reserved",
    "started",
    "done",
    "refused",
    "failed",
    "verified",
    "not_verified",
    "worse",
]

OPEN: frozenset[State] = frozenset({"waiting", "approved", "reserved", "started", "done"})
"""States from which something will still follow: the target is taken meanwhile."""

USED: frozenset[State] = frozenset(
    {"reserved", "started", "done", "failed", "verified", "not_verified", "worse"}
)
"""States that count against the budget: from the reservation on, however it ends."""

_TABLES = """
CREATE TABLE IF NOT EXISTS actions (
    id TEXT PRIMARY KEY, state TEXT NOT NULL, at REAL NOT NULL, json BLOB NOT NULL
);
CREATE TABLE IF NOT EXISTS breaker (one INTEGER PRIMARY KEY CHECK (one = 1), why TEXT, at REAL);
"""

_WHY = "SELECT why FROM breaker"
_FORGET = "DELETE FROM actions WHERE at < ? AND state NOT IN (?, ?, ?, ?, ?)"


class Malformed(GpudiagError):
    """The ledger cannot be read or written: nobody may act."""


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One plan and how far it went. `at` is when it was last changed, all in epoch seconds.

    `severity` is its finding's when the plan was made, `ended_at` when the lever was back,
    `cleared_at` when the symptom was first seen gone, `undone_at` when it was taken back.
    """

    plan: Plan
    state: State
    at: float
    severity: Severity
    ended_at: float | None = None
    cleared_at: float | None = None
    undone_at: float | None = None
    detail: str = ""
    actor: str = "gpudiag"

    @property
    def open(self) -> bool:
        """Whether something will still follow; what only looked or told is over once done."""
        return self.state in OPEN and (self.state != "done" or self.plan.rung in SPENDS)

    @property
    def in_force(self) -> bool:
        """Whether it was done, or perhaps done, and must be taken back some day."""
        held = self.state in {"started", "done", "failed", "verified", "not_verified"}
        return self.plan.carry and held and self.undone_at is None


class Ledger:
    """One sqlite file, its owner's alone; every change is on the disk when the call returns.

    Every call raises `Malformed` where the file is not a ledger or the disk refuses. Without a path
    it is in memory.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._db: sqlite3.Connection | None = None
        self._read: list[Entry] = []
        self._read_at: tuple[int, int] | None = None

    def entries(self) -> list[Entry]:
        """All that is kept, oldest plan first."""
        with self._lock:
            return self._guarded(self._known)

    def add(self, entry: Entry) -> bool:
        """Put a new plan in; False where the same plan is there already."""
        with self._lock:
            return self._guarded(lambda: self._insert(entry))

    def put(self, entry: Entry) -> Entry:
        """Write the entry's new state over its old one."""
        with self._lock:
            self._guarded(lambda: self._replace(entry))
        return entry

    def breaker(self) -> str:
        """Why the breaker is open; "" while it is closed."""
        with self._lock:
            row = self._guarded(lambda: self._file().execute(_WHY).fetchone())
        return str(row[0]) if row else ""

    def open_breaker(self, why: str, now: float) -> None:
        """Stop all acting until a person resets it."""
        with self._lock:
            insert = "INSERT OR IGNORE INTO breaker VALUES (1, ?, ?)"
            self._guarded(lambda: self._execute(insert, (why, now)))

    def reset_breaker(self) -> None:
        """A person has looked: acting may go on."""
        with self._lock:
            self._guarded(lambda: self._execute("DELETE FROM breaker", ()))

    def close(self) -> None:
        """Close the file."""
        if self._db is not None:
            self._db.close()

    def _file(self) -> sqlite3.Connection:
        if self._db is None:
            self._db = self._opened()
        return self._db

    def _opened(self) -> sqlite3.Connection:
        if self._path is not None:
            return opened(self._path, _TABLES, SCHEMA_VERSION, timeout=5.0)
        db = sqlite3.connect(":memory:", check_same_thread=False)
        db.executescript(_TABLES)
        return db

    def _known(self) -> list[Entry]:
        """Read again only where the file has changed, by us or by anybody."""
        db = self._file()
        now = db.execute("PRAGMA data_version").fetchone()[0], db.total_changes
        if now != self._read_at:
            rows = db.execute("SELECT json FROM actions ORDER BY rowid")
            self._read = [msgspec.json.decode(blob, type=Entry) for (blob,) in rows]
            self._read_at = now
        return list(self._read)

    def _insert(self, entry: Entry) -> bool:
        # A new plan is the moment to drop what ended long ago.
        self._execute(_FORGET, (entry.at - KEPT_SECONDS, *sorted(OPEN)))
        row = (entry.plan.id, entry.state, entry.at, msgspec.json.encode(entry))
        return self._execute("INSERT OR IGNORE INTO actions VALUES (?, ?, ?, ?)", row) == 1

    def _replace(self, entry: Entry) -> None:
        row = (entry.state, entry.at, msgspec.json.encode(entry), entry.plan.id)
        self._execute("UPDATE actions SET state = ?, at = ?, json = ? WHERE id = ?", row)

    def _execute(self, text: str, values: tuple[object, ...]) -> int:
        db = self._file()
        with db:
            return db.execute(text, values).rowcount

    def _guarded(self, work: Callable[[], T]) -> T:
        try:
            return work()
        except (sqlite3.Error, OSError, msgspec.MsgspecError) as error:
            raise Malformed(
                f"the ledger of actions {self._path} cannot be used ({error}): nothing is done;"
                " look at the file, and move it away once you know what was done"
            ) from error
