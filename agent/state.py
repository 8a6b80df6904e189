"""Where the agent keeps its state: `GPUDIAG_STATE_DIR`, else the place usual for the user."""

from __future__ import annotations

import fcntl
import logging
import os
from collections.abc import Mapping
from pathlib import Path

from gpudiag.probes.errors import GpudiagError

log = logging.getLogger(__name__)


def state_folder(environ: Mapping[str, str], uid: int) -> Path:
    """The state folder: as set, `/var/lib/gpudiag` for root, under `$XDG_STATE_HOME` for others."""
    if named := environ.get("GPUDIAG_STATE_DIR"):
        return Path(named)
    if uid == 0:
        return Path("/var/lib/gpudiag")
    home = environ.get("XDG_STATE_HOME") or Path(environ.get("HOME", "/")) / ".local/state"
    return Path(home) / "gpudiag"


def prepared(folder: Path) -> Path:
    """The folder, made for its owner alone; raises `GpudiagError` where that is refused."""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not os.access(folder, os.W_OK):
            raise PermissionError(f"no right to write in {folder}")
    except OSError as error:
        raise GpudiagError(
            f"cannot use the state folder {folder}: {error};"
            " set GPUDIAG_STATE_DIR to one that this user may write"
        ) from error
    return folder


def claimed(folder: Path) -> int:
    """Keep other agents off the folder while this process lives; gives the descriptor that does.

    Two writers would spoil each other's history. Raises `GpudiagError` where another has it.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise GpudiagError(
            f"another agent uses the state folder {folder}: stop it,"
            " or set GPUDIAG_STATE_DIR to another folder for this one"
        ) from error
    except OSError as error:
        log.warning("cannot lock %s (%s): let no other agent use it", folder, error)
    return descriptor
