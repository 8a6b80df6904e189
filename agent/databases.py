"""Opening a sqlite file of the agent's own whose every commit must survive a power cut."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path


def opened(path: Path, tables: str, version: int, *, timeout: float) -> sqlite3.Connection:
    """The file, made with `tables` where it is not there, for its owner alone.

    `timeout` is how many seconds to wait for another who holds it. Raises `sqlite3.Error` or
    `OSError` where it is refused, damaged, or of a later schema than `version`.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # Made by hand first: sqlite gives its log files the mode of the file they belong to.
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    db = sqlite3.connect(path, timeout=timeout, check_same_thread=False)
    try:
        db.execute("PRAGMA journal_mode=WAL")
        db.execute("PRAGMA synchronous=FULL")
        found = db.execute("PRAGMA user_version").fetchone()[0]
        if found > version:
            raise sqlite3.DatabaseError(f"written by a newer gpudiag (schema {found})")
        with db:
            db.executescript(tables)
            db.execute(f"PRAGMA user_version={version}")
    except BaseException:
        db.close()
        raise
    return db
