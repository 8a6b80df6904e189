"""Where captured files stay: the state folder, the oldest giving way to the newest."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from gpudiag.probes.errors import GpudiagError


class Shelf:
    """Files of at most `max_bytes` together, for their owner alone."""

    def __init__(self, folder: Path, max_bytes: int) -> None:
        self._folder = folder
        self._max_bytes = max_bytes

    def keep(self, source: Path, name: str) -> Path:
        """Move `source` here; raises `GpudiagError` where it is no file, or too large."""
        try:
            if source.is_symlink() or not source.is_file():
                raise GpudiagError(f"{source} is no regular file")
            size = source.stat().st_size
            if size > self._max_bytes:
                raise GpudiagError(f"{source} has {size} bytes: recording.snapshots.max_size less")
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._make_room(size)
            kept = self._folder / name
            shutil.copyfile(source, kept)
            os.chmod(kept, 0o600)
            source.unlink(missing_ok=True)
        except OSError as error:
            raise GpudiagError(f"cannot keep {source}: {error}") from error
        return kept

    def write(self, name: str, text: bytes) -> Path:
        """A file of the agent's own; raises `GpudiagError` where the disk refuses."""
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._make_room(len(text))
            kept = self._folder / name
            kept.write_bytes(text)
            kept.chmod(0o600)
        except OSError as error:
            raise GpudiagError(f"cannot keep {name}: {error}") from error
        return kept

    def _make_room(self, size: int) -> None:
        files = sorted(self._folder.iterdir(), key=lambda path: path.stat().st_mtime)
        held = sum(path.stat().st_size for path in files)
        for oldest in files:
            if held + size <= self._max_bytes:
                return
            held -= oldest.stat().st_size
            oldest.unlink()
