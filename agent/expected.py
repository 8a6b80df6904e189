"""How many GPUs this node should have: the most ever seen, remembered over restarts."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from pathlib import Path

from gpudiag.agent import files
from gpudiag.agent.findings.finding import Finding
from gpudiag.agent.window import Window
from gpudiag.probes import Event, Sample
from gpudiag.probes.errors import UsageError

MOST_GPUS = 1024
"""More than any driver lists: a file that says so is damaged."""

log = logging.getLogger(__name__)


class ExpectedGpus:
    """Keeps `gpudiag_gpus_expected` in a file, so that a GPU lost before a restart stays missed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.count = _read(path)
        self._written = self.count
        self._refused = False

    def observe(self, samples: Sequence[Sample], _events: Sequence[Event]) -> None:
        """Write the number down whenever it has changed; what a disk refuses, at the next batch."""
        for sample in samples:
            if sample.metric == "gpudiag_gpus_expected":
                self.count = int(sample.value)
                if self.count != self._written:
                    self._write()

    def on_findings(self, now: float, changed: Sequence[Finding], window: Window) -> None:
        """Findings do not change what is expected."""

    def _write(self) -> None:
        fresh = self._path.with_suffix(".new")
        try:
            fresh.write_text(f"{self.count}\n")
            os.replace(fresh, self._path)
        except OSError as error:
            if not self._refused:
                log.warning("cannot remember the number of GPUs in %s: %s", self._path, error)
            self._refused = True
        else:
            self._written, self._refused = self.count, False


def _read(path: Path) -> int:
    try:
        count = int(files.text(path))
    except (UsageError, ValueError):
        return 0
    return count if 0 <= count <= MOST_GPUS else 0
