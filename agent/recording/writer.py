"""Writes a recording: a spool while it runs, `metrics.om` and the rest once complete."""

from __future__ import annotations

import logging
import os
import shutil
import tarfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np

from gpudiag.agent.recording import meta as meta_file
from gpudiag.agent.recording import metrics_text, openmetrics, reader, spool
from gpudiag.agent.recording.meta import Meta
from gpudiag.agent.recording.timeline import SeriesKey
from gpudiag.probes import Event, Sample
from gpudiag.probes.errors import GpudiagError, UsageError

log = logging.getLogger(__name__)

PARTIAL = ".partial"
BROKEN = ".broken"
SNAPSHOTS = "snapshots"
ARCHIVE = ".tar.gz"

_COMPRESSION = 6
_EVENT_BYTES = 120
_NUMBERS_BYTES = 32


class RecordingWriter:
    """One recording at `target`, a folder or, by its name, a .tar.gz; there only once complete.

    Until then it is `target`.partial, which can be replayed too, should the recorder be killed.
    `max_bytes` bounds `metrics.om` and `events.jsonl` together, unpacked; what comes after is left
    out and `meta.json` says so. A disk that refuses raises `GpudiagError` once; the partial
    recording is removed and the writer then takes nothing more.
    """

    def __init__(self, target: Path, meta: Meta, *, max_bytes: int) -> None:
        _refuse_existing(target)
        self._target = target
        self._partial = partial_of(target)
        self._meta = meta
        self._left = max_bytes
        self._sizes: dict[SeriesKey, int] = {}
        self._gone = False
        with self._refusing():
            self._partial.mkdir(mode=0o700, parents=True)
            meta_file.write(meta, self._partial)
            self._spool = spool.Spool(self._partial)

    @property
    def full(self) -> bool:
        """Whether the size limit has been reached."""
        return self._meta.full

    def add(self, samples: Sequence[Sample], events: Sequence[Event] = ()) -> None:
        """Take one batch."""
        size = sum(self._size((s.metric, s.labels)) for s in samples)
        size += sum(_EVENT_BYTES + len(event.line) for event in events)
        if self._has_room(size):
            with self._refusing():
                self._spool.add(samples, events)

    def add_rows(self, keys: Sequence[SeriesKey], rows: spool.Rows) -> None:
        """Take rows of a spool whose series are indices into `keys`."""
        counts = np.bincount(rows["series"], minlength=len(keys)).tolist()
        sizes = zip(map(self._size, keys), counts, strict=True)
        if self._has_room(sum(size * count for size, count in sizes)):
            with self._refusing():
                self._spool.add_rows(keys, rows)

    def flush(self) -> None:
        """Hand what was taken to the kernel: from here on a kill does not lose it."""
        if not self._gone:
            with self._refusing():
                self._spool.flush()

    def close(self, end: float) -> None:
        """Complete the recording, which ends at `end` (epoch seconds), and put it in its place."""
        self.flush()
        if self._gone:
            return
        with self._refusing():
            self._spool.close()
            meta_file.write(replace(self._meta, end=end), self._partial)
            complete(self._partial, self._target)
        self._gone = True

    def abandon(self) -> None:
        """Leave nothing behind."""
        self._gone = True
        shutil.rmtree(self._partial, ignore_errors=True)

    def _has_room(self, size: int) -> bool:
        if self._gone or self._meta.full:
            return False
        self._left -= size
        if self._left < 0:
            self._meta = replace(self._meta, full=True)
        return not self._meta.full

    def _size(self, key: SeriesKey) -> int:
        size = self._sizes.get(key)
        if size is None:
            size = self._sizes[key] = len(openmetrics.series(*key)) + _NUMBERS_BYTES
        return size

    @contextmanager
    def _refusing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            self.abandon()
            raise GpudiagError(
                f"cannot record to {self._target}: {error.strerror}: make room there"
            ) from error


def _refuse_existing(target: Path) -> None:
    if not target.name:
        raise UsageError(f"{str(target)!r} names no recording: write a folder or a .tar.gz")
    if target.exists() and not (target.is_dir() and not any(target.iterdir())):
        raise UsageError(f"{target} is there already: name another place")
    if partial_of(target).exists():
        raise UsageError(
            f"{partial_of(target)} is left from a recorder that was killed:"
            " replay it as it is, move it away, or name another place"
        )


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
            tarfile.open(fileobj=file, mode="w:gz", compresslevel=_COMPRESSION) as archive,
        ):
            for name in (meta_file.FILE, spool.EVENTS, reader.METRICS):
                archive.add(partial / name, f"{target.name.removesuffix(ARCHIVE)}/{name}")
        packed.rename(target)
        shutil.rmtree(partial)
    else:
        (partial / SNAPSHOTS).mkdir(mode=0o700, exist_ok=True)
        partial.rename(target)


def partials(folder: Path) -> list[Path]:
    """Recordings in `folder` that are being written, or were when their recorder was killed."""
    return sorted(folder.glob(f"*{PARTIAL}"))


def recover(left_over: Iterable[Path]) -> list[Path]:
    """Complete these partial recordings; gives where they are now.

    One that cannot be completed is moved aside as `.broken`. Raises `OSError`.
    """
    found: list[Path] = []
    for partial in left_over:
        target = partial.with_name(partial.name.removesuffix(PARTIAL))
        try:
            complete(partial, target)
        except (OSError, msgspec.MsgspecError) as error:
            aside = target.with_name(target.name + BROKEN)
            log.warning("the recording %s cannot be completed: %s; see %s", target, error, aside)
            partial.rename(aside)
        else:
            found.append(target)
    return found


def _private(path: Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
