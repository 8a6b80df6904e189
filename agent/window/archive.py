"""History on disk: the part of the window that left the memory, and what a restart needs."""

from __future__ import annotations

import logging
import sqlite3
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from gpudiag.agent.window.block import Block, join, unpack
from gpudiag.agent.window.schema import UnknownVersion, damaged, open_file, set_aside
from gpudiag.probes import Event, Labels

T = TypeVar("T")

_log = logging.getLogger(__name__)

BUDGET_BYTES = 1 << 30
MAX_EVENTS = 20_000
CACHE_BYTES = 8 << 20


class SavedHead(msgspec.Struct, array_like=True, frozen=True):
    """A series as it stood: see `table.Head`."""

    labels: Labels
    time: float
    value: float
    gap: float
    limit: float


@dataclass(frozen=True, slots=True)
class Batch:
    """What one save writes. Times are the window's own; `shift` added to them gives the clock's.

    `chunks` are (kind, metric, start, packed block), `heads` (metric, its heads). Of each kind the
    chunks that start before `expire[kind]` are deleted, and the events before `expire_events`.
    """

    shift: float
    chunks: Sequence[tuple[str, str, float, bytes]]
    heads: Sequence[tuple[str, Sequence[SavedHead]]]
    events: Sequence[Event]
    expire: Mapping[str, float]
    expire_events: float


class Archive:
    """One sqlite file, mode 0600, with one owner thread. It never raises for a disk that fails.

    While `error` is not None nothing is saved and the window holds its history in memory; each
    save tries again. A damaged file is moved aside and a new one begun. `report` is told of both.
    """

    def __init__(
        self,
        path: Path,
        *,
        budget: int = BUDGET_BYTES,
        report: Callable[[str], None] = _log.warning,
    ) -> None:
        self.path = path
        self.error: str | None = None
        self._budget = budget
        self._report = report
        self._db: sqlite3.Connection | None = None
        # The writer saves while others read: a read must not commit half of what is written.
        self._one_at_a_time = threading.Lock()
        self._cache: dict[tuple[str, str], tuple[float, float, Block]] = {}

    def save(self, batch: Batch, now: float) -> bool:
        """Write all of a batch or nothing; False when the disk did not take it."""
        saved = self._guarded(lambda db: _write(db, batch, self._budget), False, now)
        if saved:
            self.error = None
        return saved

    def shift(self, now: float) -> float:
        """The clock shift that was last saved, seconds."""
        rows = self._rows("SELECT CAST(shift AS REAL) FROM clock", (), now)
        return float(rows[0][0]) if rows else 0.0

    def heads(self, now: float) -> list[tuple[str, list[SavedHead]]]:
        """The heads of each metric that was kept."""
        rows = self._rows("SELECT metric, data FROM head", (), now)
        return [(metric, self._decoded(data, list[SavedHead]) or []) for metric, data in rows]

    def events(self, now: float) -> list[Event]:
        """All events held, oldest first, on the window's own times."""
        rows = self._rows("SELECT data FROM event ORDER BY time, id", (), now)
        return [event for (data,) in rows if (event := self._decoded(data, Event)) is not None]

    def block(self, kind: str, metric: str, first: float, end: float, now: float) -> Block:
        """At least the chunks of `first` <= start < `end` as one block, from a cache if it can."""
        known = self._cache.get((kind, metric))
        if known and known[0] <= first and known[1] == end:
            return known[2]
        query = (
            "SELECT rowid, data FROM chunk WHERE kind = ? AND metric = ? AND start >= ? "
            "AND start < ? ORDER BY start"
        )
        rows = self._rows(query, (kind, metric, first, end), now)
        block = join([b for row, data in rows if (b := self._unpacked(row, data, now))])
        if sum(b.values.nbytes for _, _, b in self._cache.values()) > CACHE_BYTES:
            self._cache.clear()
        # A failed read found nothing, which is not to be remembered as nothing being there.
        if self._db is not None:
            self._cache[kind, metric] = (first, end, block)
        return block

    def _decoded(self, data: bytes, kind: type[T]) -> T | None:
        try:
            return msgspec.msgpack.decode(data, type=kind)
        except msgspec.MsgspecError as error:
            self._report(f"{self.path}: an entry is damaged: {error}; it is left out")
            return None

    def _unpacked(self, row: int, data: bytes, now: float) -> Block | None:
        try:
            return unpack(data)
        except ValueError as error:
            self._report(f"{self.path}: {error}; it is deleted")
            self._rows("DELETE FROM chunk WHERE rowid = ?", (row,), now)
            return None

    def close(self) -> None:
        """Close the file; a later call opens it again."""
        self._cache.clear()
        if self._db is not None:
            self._db.close()
            self._db = None

    def _rows(self, query: str, values: tuple[object, ...], now: float) -> list[tuple[Any, ...]]:
        return self._guarded(lambda db: db.execute(query, values).fetchall(), [], now)

    def _guarded(self, work: Callable[[sqlite3.Connection], T], failed: T, now: float) -> T:
        with self._one_at_a_time:
            return self._tried(work, failed, now)

    def _tried(self, work: Callable[[sqlite3.Connection], T], failed: T, now: float) -> T:
        try:
            # A deleted file would go on taking what nobody will ever read.
            if self._db is not None and not self.path.exists():
                self.close()
            if self._db is None:
                self._db = open_file(self.path)
            with self._db:
                return work(self._db)
        except (sqlite3.Error, OSError, UnknownVersion) as error:
            self._failed(error, now)
            return failed

    def _failed(self, error: Exception, now: float) -> None:
        self.close()
        if damaged(error):
            try:
                self._begin_anew(error, now)
            except OSError as stuck:
                error = stuck
            else:
                return
        message = (
            f"history is not saved to {self.path} ({error}) and held in memory only: "
            "free space on that disk, or make the folder writable"
        )
        if self.error is None:
            self._report(message)
        self.error = message

    def _begin_anew(self, error: Exception, now: float) -> None:
        aside = set_aside(self.path, f"{now:.0f}")
        self._report(
            f"the history in {self.path} cannot be read ({error}): it was moved to {aside} "
            "and a new one begun; delete the old one or send it with a bug report"
        )


def _write(db: sqlite3.Connection, batch: Batch, budget: int) -> bool:
    db.execute("INSERT OR REPLACE INTO clock VALUES (0, ?)", (batch.shift,))
    db.executemany("INSERT OR REPLACE INTO chunk VALUES (?, ?, ?, ?)", batch.chunks)
    db.execute("DELETE FROM head")
    heads = [(metric, msgspec.msgpack.encode(saved)) for metric, saved in batch.heads]
    db.executemany("INSERT INTO head VALUES (?, ?)", heads)
    db.executemany(
        "INSERT INTO event (time, data) VALUES (?, ?)",
        [(event.time, msgspec.msgpack.encode(event)) for event in batch.events],
    )
    for kind, start in batch.expire.items():
        db.execute("DELETE FROM chunk WHERE kind = ? AND start < ?", (kind, start))
    db.execute("DELETE FROM event WHERE time < ?", (batch.expire_events,))
    db.execute("DELETE FROM event WHERE id <= (SELECT max(id) FROM event) - ?", (MAX_EVENTS,))
    while _used(db) > budget and _drop_oldest(db):
        pass
    return True


def _used(db: sqlite3.Connection) -> int:
    pages, spare, size = (
        db.execute(f"PRAGMA {name}").fetchone()[0]
        for name in ("page_count", "freelist_count", "page_size")
    )
    return int((pages - spare) * size)


def _drop_oldest(db: sqlite3.Connection) -> int:
    return db.execute(
        "DELETE FROM chunk WHERE rowid IN (SELECT rowid FROM chunk ORDER BY start "
        "LIMIT (SELECT count(*) / 10 + 1 FROM chunk))"
    ).rowcount
