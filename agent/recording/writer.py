"""Writes a recording: a spool while it runs, `metrics.om` and the rest once complete."""

from __future__ import annotations

import os
import shutil
import tarfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from gpudiag.agent.recording import meta as meta_file
from gpudiag.agent.recording import metrics_text, openmetrics, reader, spool
from gpudiag.agent.recording.meta import Meta
from gpudiag.agent.recording.timeline import SeriesKey
from gpudiag.probes import Event, Sample
from gpudiag.probes.errors import GpudiagError, UsageError

PARTIAL = ".partial"
SNAPSHOTS = "snapshots"
ARCHIVE = ".tar.gz"

_EVENT_OVERHEAD = 120
_NUMBERS_BYTES = 32


class RecordingWriter:
    """One recording at `target`, a folder or, by its name, a .tar.gz; there only once complete.

    Until then it is `target`.partial, which can be replayed too, should the recorder be killed.
    `max_bytes` bounds `metrics.om` and `events.jsonl` together, unpacked; what comes after is left
    out and `meta.json` says so. A disk that refuses raises `GpudiagError` once; the partial
    recording is removed and the writer then takes nothing more.
    """

    def __init__(self, target: Path, meta: Meta, *, max_bytes: int) -> None:
        self._target = target
        self._partial = partial_of(target)
        self._meta = meta
        self._left = max_bytes
        self._sizes: dict[SeriesKey, int] = {}
        self._gone = False
        if target.exists():
            raise UsageError(f"{target} is there already: name another place")
        try:
            self._partial.mkdir(mode=0o700, parents=True)
            meta_file.write(meta, self._partial)
            self._spool = spool.Spool(self._partial)
        except OSError as error:
            raise self._refused(error) from error

    def add(self, samples: Sequence[Sample], events: Sequence[Event] = ()) -> None:
        """Take one batch."""
        if self._gone or self._meta.full:
            return
        self._left -= sum(map(self._size, samples))
        self._left -= sum(_EVENT_OVERHEAD + len(event.line) for event in events)
        if self._left < 0:
            self._meta = replace(self._meta, full=True)
            return
        try:
            self._spool.add(samples, events)
        except OSError as error:
            raise self._refused(error) from error

    def flush(self) -> None:
        """Hand what was taken to the kernel: from here on a kill does not lose it."""
        if not self._gone:
            try:
                self._spool.flush()
            except OSError as error:
                raise self._refused(error) from error

    def close(self, end: float) -> None:
        """Complete the recording, which ends at `end` (epoch seconds), and put it in its place."""
        self.flush()
        if self._gone:
            return
        try:
            self._spool.close()
            meta_file.write(replace(self._meta, end=end), self._partial)
            complete(self._partial, self._target)
        except OSError as error:
            raise self._refused(error) from error
        self._gone = True

    def _size(self, sample: Sample) -> int:
        key = (sample.metric, sample.labels)
        size = self._sizes.get(key)
        if size is None:
            size = self._sizes[key] = len(openmetrics.series(*key)) + _NUMBERS_BYTES
        return size

    def _refused(self, error: OSError) -> GpudiagError:
        self._gone = True
        shutil.rmtree(self._partial, ignore_errors=True)
        return GpudiagError(f"cannot record to {self._target}: {error.strerror}: make room there")


def partial_of(target: Path) -> Path:
    """Where the recording `target` stands while it is being written."""
    return target.with_name(target.name + PARTIAL)


def complete(partial: Path, target: Path) -> None:
    """Turn the spool in `partial` into the recording `target`; raises `OSError`."""
    if (partial / spool.SERIES).exists():
        with os.fdopen(_private(partial / reader.METRICS), "w", encoding="utf-8") as text:
            metrics_text.write(*spool.load(partial), text)
        # Readers go by the spool while its names are there: they are the first to go.
        (partial / spool.SERIES).unlink()
    (partial / spool.SAMPLES).unlink(missing_ok=True)
    if target.name.endswith(ARCHIVE):
        packed = partial / "packed"
        with (
            os.fdopen(_private(packed), "wb") as file,
            tarfile.open(fileobj=file, mode="w:gz") as archive,
        ):
            for name in (meta_file.FILE, spool.EVENTS, reader.METRICS):
                archive.add(partial / name, f"{target.name.removesuffix(ARCHIVE)}/{name}")
        packed.rename(target)
        shutil.rmtree(partial)
    else:
        (partial / SNAPSHOTS).mkdir(mode=0o700, exist_ok=True)
        partial.rename(target)


def recover(folder: Path) -> list[Path]:
    """Complete the recordings in `folder` that a kill cut off; gives them. Raises `OSError`."""
    found = [folder / p.name.removesuffix(PARTIAL) for p in folder.glob(f"*{PARTIAL}")]
    for target in sorted(found):
        complete(partial_of(target), target)
    return sorted(found)


def _private(path: Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
