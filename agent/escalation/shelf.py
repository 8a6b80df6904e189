"""Where captured files stay: the state folder, the oldest giving way to the newest."""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path
from typing import BinaryIO

from gpudiag.probes.errors import GpudiagError


class Shelf:
    """Files of at most `max_bytes` together, for their owner alone."""

    def __init__(self, folder: Path, max_bytes: int) -> None:
        self._folder = folder
        self._max_bytes = max_bytes

    def keep(self, source: Path, name: str, owner: int) -> Path:
        """Move `source`, a file of the user `owner`, here; raises `GpudiagError` for anything else.

        A process names the path, and the agent may have more rights than it: what is not that
        user's own is neither read nor removed.
        """
        try:
            with contextlib.ExitStack() as opened:
                folder = os.open(source.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
                opened.callback(os.close, folder)
                flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
                file = opened.enter_context(
                    os.fdopen(os.open(source.name, flags, dir_fd=folder), "rb")
                )
                self._judge(source, os.fstat(file.fileno()), owner)
                kept = self._fill(name, os.fstat(file.fileno()).st_size, file)
                os.unlink(source.name, dir_fd=folder)
        except OSError as error:
            raise GpudiagError(f"cannot keep {source}: {error}") from error
        return kept

    def _judge(self, source: Path, found: os.stat_result, owner: int) -> None:
        if not stat.S_ISREG(found.st_mode) or found.st_nlink != 1:
            raise GpudiagError(f"{source} is no regular file of one name")
        if found.st_uid != owner:
            raise GpudiagError(f"{source} is not a file of user {owner}, who runs the rank")
        if found.st_size > self._max_bytes:
            raise GpudiagError(
                f"{source} has {found.st_size} bytes: recording.snapshots.max_size is less"
            )

    def _fill(self, name: str, size: int, source: BinaryIO) -> Path:
        kept = self._folder / name
        with os.fdopen(self._new(kept, size), "wb") as file:
            # It may grow meanwhile: what was judged is what is taken.
            file.write(source.read(size))
        return kept

    def write(self, name: str, text: bytes) -> Path:
        """A file of the agent's own; raises `GpudiagError` where the disk refuses."""
        kept = self._folder / name
        try:
            with os.fdopen(self._new(kept, len(text)), "wb") as file:
                file.write(text)
        except OSError as error:
            raise GpudiagError(f"cannot keep {name}: {error}") from error
        return kept

    def _new(self, kept: Path, size: int) -> int:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._make_room(size)
        return os.open(kept, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)

    def _make_room(self, size: int) -> None:
        files = sorted(self._folder.iterdir(), key=lambda path: path.stat().st_mtime)
        held = sum(path.stat().st_size for path in files)
        for oldest in files:
            if held + size <= self._max_bytes:
                return
            held -= oldest.stat().st_size
            oldest.unlink()
