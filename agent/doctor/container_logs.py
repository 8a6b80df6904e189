"""Whether the containers' logs can be read: their folder holds links that lead elsewhere."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path

TRIED = 16
"""Logs tried in a folder: a few may be of containers that have just gone."""


def missing(folders: Sequence[Path]) -> str:
    """What stands between this process and the logs; "" where nothing does."""
    there = [folder for folder in folders if folder.exists()]
    if not there:
        return f"no {folders[0]}"
    shut = [str(folder) for folder in there if not os.access(folder, os.R_OK | os.X_OK)]
    if shut:
        return f"no right to read {', '.join(shut)}"
    whys = [why for folder in there if (why := _of_files(islice(folder.glob("*.log"), TRIED)))]
    return "; ".join(whys)


def _of_files(logs: Iterable[Path]) -> str:
    astray = []
    for log in logs:
        try:
            os.close(os.open(log, os.O_RDONLY | os.O_CLOEXEC))
        except FileNotFoundError:
            astray.append(log)
        except PermissionError:
            return f"no right to read {_described(log)}"
        else:
            return ""
    if not astray:
        return ""
    return f"{astray[0]} leads to {os.readlink(astray[0])}, which is not here: mount that as well"


def _described(log: Path) -> str:
    end = log.resolve()
    try:
        found = end.stat()
    except OSError:
        return f"{end}: a folder above it is shut"
    return f"{end} (user {found.st_uid}, group {found.st_gid}, {stat.filemode(found.st_mode)})"
