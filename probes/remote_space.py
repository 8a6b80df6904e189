"""Room on network mounts, asked in a child that may hang; what is old or unanswered is absent."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from gpudiag.probes.disks import Space
from gpudiag.probes.reader import Reader
from gpudiag.probes.statvfs_child import ANSWER, ASKING

# The child says something every 5 s; an NFS server may well take ten to answer under load.
DEADLINE_SECONDS = 20.0
FRESH_SECONDS = 75.0


class RemoteSpace:
    """The `remote` of the disks probe; its child starts with the first question."""

    def __init__(
        self,
        mountinfo: Path = Path("/proc/self/mountinfo"),
        *,
        clock: Callable[[], float] = time.monotonic,
        argv: Sequence[str] = (sys.executable, "-m", "gpudiag.probes.statvfs_child"),
    ) -> None:
        self._command = [*argv, str(mountinfo)]
        self._clock = clock
        self._reader: Reader | None = None
        self._answers: dict[str, tuple[float, Space]] = {}
        self._asking = ""
        self._hung: list[str] = []

    def __call__(self, point: str) -> Space | None:
        """The space of `point` as of at most `FRESH_SECONDS` ago, else None. Never blocks."""
        if self._reader is None:
            self._reader = Reader(
                "statvfs",
                lambda: [*self._command, *self._hung],
                deadline=DEADLINE_SECONDS,
                start_deadline=DEADLINE_SECONDS,
                clock=self._clock,
            )
        self._listen(self._reader)
        heard, space = self._answers.get(point, (0.0, None))
        return space if self._clock() - heard <= FRESH_SECONDS else None

    def close(self) -> None:
        """End the child."""
        if self._reader is not None:
            self._reader.close()

    def _listen(self, reader: Reader) -> None:
        frames, notices = reader.poll()
        for frame in frames:
            if frame.kind == ASKING:
                self._asking = frame.payload.decode("utf-8", "replace")
            elif frame.kind == ANSWER:
                point, size, available = json.loads(frame.payload)
                self._answers[point] = (self._clock(), Space(size, available))
        if any(notice.what == "wedged" for notice in notices):
            self._hung = [*(one for one in self._hung if one != self._asking), self._asking][-64:]
