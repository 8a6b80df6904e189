"""The archive's file: made private, opened for write-ahead logging, brought to this version."""

from __future__ import annotations

import os
import shutil
import sqlite3
from pathlib import Path

MIGRATIONS: tuple[str, ...] = (
    """
    CREATE TABLE chunk (kind TEXT, metric TEXT, start REAL, data BLOB NOT NULL,
                        PRIMARY KEY (kind, metric, start));
    CREATE INDEX chunk_by_age ON chunk (start);
    CREATE TABLE head (metric TEXT PRIMARY KEY, data BLOB NOT NULL);
    CREATE TABLE event (id INTEGER PRIMARY KEY, time REAL NOT NULL, data BLOB NOT NULL);
    CREATE TABLE clock (id INTEGER PRIMARY KEY CHECK (id = 0), shift REAL NOT NULL);
    """,
)
"""One script per version: a file of version n lacks those from index n on."""

_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR)
"""Damaged pages, no database at all, and tables that are not those of its version."""


class UnknownVersion(Exception):
    """The file was written by a later gpudiag, or is none."""


def open_file(path: Path) -> sqlite3.Connection:
    """The open file, made if it is not there; raises sqlite3.Error, OSError or UnknownVersion."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if path.exists() and not path.is_file():
        raise UnknownVersion("it is no file")
    # Made by hand first: sqlite gives its log files the mode of the file they belong to.
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    db = sqlite3.connect(path, timeout=1.0, check_same_thread=False)
    try:
        path.chmod(0o600)
        for pragma in ("journal_mode = WAL", "synchronous = NORMAL", "cache_size = -512"):
            db.execute(f"PRAGMA {pragma}")
        db.execute("PRAGMA journal_size_limit = 8388608")
        _migrate(db)
    except BaseException:
        db.close()
        raise
    return db


def _migrate(db: sqlite3.Connection) -> None:
    (version,) = db.execute("PRAGMA user_version").fetchone()
    if version > len(MIGRATIONS):
        raise UnknownVersion(
            f"its schema version is {version}, this gpudiag knows {len(MIGRATIONS)}"
        )
    for number in range(version, len(MIGRATIONS)):
        script = f"BEGIN; {MIGRATIONS[number]} PRAGMA user_version = {number + 1}; COMMIT;"
        db.executescript(script)


def damaged(error: Exception) -> bool:
    """Whether the file itself is unusable, so that only a new one helps."""
    # The low byte is the error's class, the rest says where in sqlite it was met.
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return isinstance(error, UnknownVersion) or code in _DAMAGED


def set_aside(path: Path, mark: str) -> Path:
    """Rename the file to `NAME.corrupt-MARK`, its logs too; gives the new path.

    The one before it is deleted: a failing disk must not fill up with them.
    """
    for older in path.parent.glob(f"{path.name}.corrupt-*"):
        shutil.rmtree(older) if older.is_dir() else older.unlink()
    aside = path.with_name(f"{path.name}.corrupt-{mark}")
    for suffix in ("", "-wal", "-shm"):
        part = Path(f"{path}{suffix}")
        if part.exists():
            part.rename(f"{aside}{suffix}")
    return aside
