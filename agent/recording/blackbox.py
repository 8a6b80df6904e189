"""The black box: a recording around every critical finding, made without being asked."""

from __future__ import annotations

import logging
import shutil
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from gpudiag.agent.findings.finding import Finding
from gpudiag.agent.recording.meta import Meta
from gpudiag.agent.recording.ring import Ring
from gpudiag.agent.recording.writer import ARCHIVE, RecordingWriter, partials, recover
from gpudiag.agent.window import Window
from gpudiag.probes import Event, Sample
from gpudiag.probes.errors import GpudiagError

log = logging.getLogger(__name__)

BEFORE_SECONDS = 900.0
AGAIN_SECONDS = 3600.0
"""A symptom at one subject is recorded once in so many seconds."""

MAX_RING_BYTES = 16 * 1024**2
RECORDING_SHARE = 4
"""One recording, unpacked, may take a quarter of all that the black box may."""

Later = Callable[[Callable[[], None]], None]


def _in_background(work: Callable[[], None]) -> None:
    threading.Thread(target=work, name="blackbox", daemon=True).start()


class BlackBox:
    """Keeps `folder` with what was seen from 15 minutes before a critical finding to `after`.

    Findings that come while one recording runs lengthen it. All recordings together take at most
    `max_bytes`; the oldest give way. No wall clock: times are those of samples and evaluations.
    `later` runs what takes a second or two (packing) away from the caller's thread.
    """

    def __init__(
        self,
        folder: Path,
        *,
        after: float,
        max_bytes: int,
        node: str = "",
        later: Later = _in_background,
    ) -> None:
        self._folder = folder
        self._after = after
        self._max_bytes = max_bytes
        self._node = node
        self._later = later
        self._ring = Ring(BEFORE_SECONDS, MAX_RING_BYTES)
        self._recorded: dict[str, float] = {}
        self._writer: RecordingWriter | None = None
        self._until = 0.0
        self._failed = False
        # Listed now, before a new recording may stand among them.
        left_over = partials(folder)
        later(lambda: self._recover(left_over))

    def observe(self, samples: Sequence[Sample], events: Sequence[Event]) -> None:
        """Take one batch that went into the window."""
        self._ring.add(samples, events)
        if self._writer is not None:
            self._try(self._writer, lambda writer: writer.add(samples, events))

    def on_findings(self, now: float, changed: Sequence[Finding], _window: Window) -> None:
        """After an evaluation: begin, lengthen or complete a recording."""
        for finding in changed:
            if _critical(finding) and not self._recorded_lately(finding.id, now):
                self._recorded[finding.id] = now
                self._until = now + self._after
                if self._writer is None:
                    self._begin(now, finding)
        writer = self._writer
        if writer is None:
            return
        if now >= self._until or writer.full:
            self._writer = None
            self._later(lambda: self._complete(writer, now))
        else:
            self._try(writer, RecordingWriter.flush)

    def _recorded_lately(self, finding: str, now: float) -> bool:
        self._recorded = {k: at for k, at in self._recorded.items() if now - at < AGAIN_SECONDS}
        return finding in self._recorded

    def _begin(self, now: float, finding: Finding) -> None:
        limit = self._max_bytes // RECORDING_SHARE
        stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(now))
        meta = Meta(self._node, f"{finding.id}: {finding.summary}")
        target = self._folder / f"{stamp}-{finding.symptom}{ARCHIVE}"
        try:
            rotate(self._folder, self._max_bytes - limit)
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._writer = RecordingWriter(target, meta, max_bytes=limit)
        except (GpudiagError, OSError) as error:
            self._fail(error)
            return
        self._try(self._writer, self._write_ring)

    def _write_ring(self, writer: RecordingWriter) -> None:
        # Newest first: should the limit cut something off, then what is furthest from the fault.
        for keys, rows, events in reversed(list(self._ring.contents())):
            writer.add_rows(keys, rows)
            writer.add((), events)
        writer.flush()
        self._failed = False

    def _complete(self, writer: RecordingWriter, now: float) -> None:
        def act(writer: RecordingWriter) -> None:
            writer.close(now)
            rotate(self._folder, self._max_bytes)

        self._try(writer, act)

    def _recover(self, left_over: list[Path]) -> None:
        try:
            for path in recover(left_over):
                log.info("completed the recording %s that a kill had cut off", path)
        except OSError as error:
            self._fail(error)

    def _try(self, writer: RecordingWriter, act: Callable[[RecordingWriter], None]) -> None:
        try:
            act(writer)
        except (GpudiagError, OSError) as error:
            self._fail(error)
            if self._writer is writer:
                self._writer = None

    def _fail(self, error: Exception) -> None:
        level = logging.DEBUG if self._failed else logging.ERROR
        self._failed = True
        log.log(level, "no recording of a critical finding: %s; the agent goes on", error)


def _critical(finding: Finding) -> bool:
    return finding.state == "firing" and finding.severity == "critical" and not finding.explained_by


def rotate(folder: Path, max_bytes: int) -> None:
    """Remove the oldest recordings in `folder`, by name, until all take at most `max_bytes`.

    One that is being written stays, and does not count.
    """
    written = set(partials(folder))
    sizes = {p: _size(p) for p in sorted(folder.glob(f"*{ARCHIVE}*")) if p not in written}
    total = sum(sizes.values())
    for path, size in sizes.items():
        if total <= max_bytes:
            return
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
        total -= size


def _size(path: Path) -> int:
    files = path.rglob("*") if path.is_dir() else [path]
    return sum(file.lstat().st_size for file in files if file.is_file())
