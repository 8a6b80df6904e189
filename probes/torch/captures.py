"""Allocator snapshots on request: one now, or one after some recorded steps."""

from __future__ import annotations

import os
import pickle
import time
from collections.abc import Callable
from pathlib import Path

from gpudiag.probes.errors import Unavailable
from gpudiag.probes.torch.features import Features

# The default is no limit at all: host memory would grow with every allocation.
ENTRIES = 100_000


class Captures:
    """Writes snapshots into `folder`; for the training thread, at a step boundary.

    Raises `Unavailable` where this torch or this process has no CUDA allocator, `OSError` where
    the folder cannot be written.
    """

    def __init__(
        self,
        features: Features,
        folder: Path,
        step: Callable[[], int],
        on_gpu: Callable[[], bool],
    ) -> None:
        self._features = features
        # Asked for anything, torch would make a CUDA context in a process that uses no GPU.
        self._on_gpu = on_gpu
        self._folder = folder
        self._step = step
        self._until: int | None = None

    def snapshot(self, label: str) -> Path:
        """Write the snapshot, its name is made of `label`, pid and step."""
        content = self._features.snapshot() if self._on_gpu() else None
        if content is None:
            raise Unavailable("no allocator snapshot: this process has no CUDA allocator")
        path = self._path(label, "pickle")
        # Whoever reads finds a whole file or none.
        part = path.with_suffix(".part")
        with part.open("wb") as file:
            pickle.dump(content, file, protocol=4)
        part.rename(path)
        return path

    def write(self, label: str, text: str) -> Path:
        """Write a text file beside the snapshots."""
        path = self._path(label, "json")
        path.write_text(text)
        return path

    def record(self, steps: int) -> None:
        """Record allocations with their Python stacks for `steps` steps; about 2 us each."""
        if not self._features.record_history or not self._on_gpu():
            raise Unavailable("no allocation history: this process has no CUDA allocator")
        self._features.record_history("all", "alloc", "python", ENTRIES)
        self._until = self._step() + steps

    def recording(self) -> bool:
        """Whether the allocations are recorded now."""
        return self._until is not None

    def finished(self) -> Path | None:
        """The snapshot of a recording whose steps are over; recording ends. None meanwhile."""
        if self._until is None or self._step() < self._until:
            return None
        self._until = None
        try:
            return self.snapshot("steps")
        finally:
            self._features.record_history(None)

    def _path(self, label: str, kind: str) -> Path:
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        name = f"{label}-{os.getpid()}-{self._step()}-{time.time_ns() // 1_000_000}.{kind}"
        return self._folder / name
