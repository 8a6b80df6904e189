"""Compares now and then what a job runs in with what was recorded, and looks at its weights."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from gpudiag.probes import MAX_LINE, Event, Record
from gpudiag.probes.errors import Unavailable
from gpudiag.probes.manifest.comparing import differences
from gpudiag.probes.manifest.taking import Manifest, load, take
from gpudiag.probes.manifest.weights import faults

SOURCE = "log:manifest"
MOST = 20
"""Differences that are told: another image has hundreds, and the graver come first."""


class ManifestProbe:
    """One event for each difference and each fault, once until it changes."""

    name = "manifest"
    metrics: frozenset[str] = frozenset()
    cadence = 3600.0
    deadline = 120.0

    def __init__(
        self,
        baseline: Path | None,
        weights: Sequence[Path],
        environ: Mapping[str, str],
        *,
        python: str = "",
        now: Callable[[], float] = time.time,
        taken: Callable[[Mapping[str, str], str], Manifest] = take,
    ) -> None:
        self._baseline = baseline
        self._weights = weights
        self._environ = environ
        self._python = python
        self._now = now
        self._taken = taken
        self._told: frozenset[str] = frozenset()

    def read(self) -> Iterator[Record]:
        """What is not as it was; raises `Unavailable` where nothing was recorded."""
        if self._baseline is None and not self._weights:
            raise Unavailable("no manifest is configured: `gpudiag doctor --save` makes one")
        lines = dict.fromkeys((*self._changed(), *self._faulty()))
        new = [line for line in lines if line not in self._told]
        self._told = frozenset(lines)
        for line in new:
            yield Event(self._now(), SOURCE, line[:MAX_LINE], "manifest")

    def close(self) -> None:
        """Nothing stays open."""

    def _changed(self) -> list[str]:
        if self._baseline is None:
            return []
        now = self._taken(self._environ, self._python)
        found = differences(load(self._baseline), now)
        return [difference.line for difference in found[:MOST]]

    def _faulty(self) -> list[str]:
        return [fault.line for folder in self._weights for fault in faults(folder)][:MOST]
