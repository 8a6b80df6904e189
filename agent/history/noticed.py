"""What was odd in the data of a node: gaps, resets, two scrapers, partial answers; said, once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime

import numpy as np

from gpudiag.agent.history.fetching import Chunk
from gpudiag.agent.history.names import is_counter
from gpudiag.agent.recording.timeline import Columns, Floats

GAP_SPACINGS = 5.0
"""After so many missing samples a series counts as silent, as everywhere in gpudiag."""

MOST = 5


@dataclass(slots=True)
class Noticed:
    """Counts over all chunks; `lines` puts them into words."""

    twice: int = 0
    resets: int = 0
    gaps: list[tuple[float, float]] = field(default_factory=list)
    warnings: dict[str, None] = field(default_factory=dict)
    last: float | None = None

    def take(self, chunk: Chunk, spacing: float) -> None:
        """Look at one chunk; `spacing` is the usual distance of samples in seconds."""
        self.twice = max(self.twice, chunk.twice)
        self.resets += sum(map(_resets, chunk.columns))
        for warning in chunk.warnings:
            self.warnings[warning] = None
        times = _moments(chunk.columns)
        if self.last is not None:
            times = np.concatenate([[self.last], times])
        if len(times):
            wide = np.flatnonzero(np.diff(times) > max(60.0, GAP_SPACINGS * spacing))
            self.gaps += [(float(times[at]), float(times[at + 1])) for at in wide]
            self.last = float(times[-1])

    def lines(self, end: float, spacing: float) -> list[str]:
        """One line for each thing that was noticed; `end` is where the data should have ended."""
        said = [f"the server warns: {warning}" for warning in self.warnings]
        if self.twice:
            said.append(
                f"{self.twice} series came from two scrapers of one target: the fuller was taken"
            )
        if self.resets:
            said.append(f"counters began anew {self.resets} times: rates go on across it")
        gaps = list(self.gaps)
        if self.last is not None and end - self.last > max(60.0, GAP_SPACINGS * spacing):
            gaps.append((self.last, end))
        said += [f"no samples from {utc(a)} to {utc(b)}" for a, b in gaps[:MOST]]
        if len(gaps) > MOST:
            said.append(f"no samples in {len(gaps) - MOST} more spans")
        return said


def spacing_of(columns: Iterable[Columns]) -> float:
    """The usual distance of samples within one series, seconds; 0 where none has two."""
    gaps = [float(np.median(np.diff(times))) for _, times, _ in columns if len(times) > 1]
    return float(np.median(gaps)) if gaps else 0.0


def utc(at: float) -> str:
    """A time as people and logs write it: `2026-11-30 12:05:00Z`."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def _resets(column: Columns) -> int:
    (metric, _), _, values = column
    return int((np.diff(values) < 0.0).sum()) if is_counter(metric) else 0


def _moments(columns: Iterable[Columns]) -> Floats:
    found = [times for _, times, _ in columns]
    return np.unique(np.concatenate(found)) if found else np.empty(0)
