"""Logs followed as they grow: what they say of failures becomes events, the rest is left alone.

A file that is there when following begins is old and is read from its end; one that appears later
from its beginning; after a restart reading goes on where it was.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from gpudiag.probes import MAX_LINE, Event, Record, Sample
from gpudiag.probes.errors import Unavailable
from gpudiag.probes.logs import places
from gpudiag.probes.logs.dumps import Dumps
from gpudiag.probes.logs.elastic import MAX_ERROR_FILE, error_file
from gpudiag.probes.logs.following import Following
from gpudiag.probes.logs.kinds import chatter
from gpudiag.probes.logs.positions import Positions
from gpudiag.probes.logs.quota import Quota

log = logging.getLogger(__name__)

LOOK_SECONDS = 5.0
BYTES_PER_READ = 1 << 20
"""Of all logs together: with the cadence of a second, what following may cost."""
MIN_PER_LOG = 16384
SAVE_SECONDS = 5.0
OLDEST_STAMP = 48 * 3600.0

Judge = Callable[[Sequence[Path]], Iterable[tuple[str, Mapping[str, str]]]]
"""From a hang's dumps to what they tell: lines with their fields."""


def _nothing(_: Sequence[Path]) -> Iterable[tuple[str, Mapping[str, str]]]:
    return ()


class Logs:
    """The probe. `files` are glob patterns, `containers` the folders of container logs.

    `state` is the file where positions are kept, `dumps` the folder of flight-recorder dumps and
    `judge` what is asked about those.
    """

    name = "logs"
    cadence = 1.0
    metrics = frozenset(
        {
            "gpudiag_log_files",
            "gpudiag_log_files_unreadable",
            "gpudiag_log_lines_dropped_total",
            "gpudiag_log_lines_cut_total",
            "gpudiag_log_skipped_bytes_total",
        }
    )

    def __init__(
        self,
        files: Sequence[str] = (),
        *,
        containers: Sequence[Path] = (),
        state: Path | None = None,
        dumps: Path | None = None,
        judge: Judge = _nothing,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._files, self._containers = list(files), list(containers)
        self._dumps, self._judge, self._clock = Dumps(dumps) if dumps else None, judge, clock
        self._positions = Positions(state, [*self._files, *map(str, self._containers)])
        self._following = Following(self._positions.known)
        self._quota = Quota()
        self._error_files: dict[Path, float] = {}
        self._looked = self._saved = float("-inf")
        self._own = places.own_outputs()
        self._lock = threading.Lock()
        self._closed = False

    def read(self) -> list[Record]:
        """The events since the last call, and counters."""
        if not (self._files or self._containers or self._dumps):
            raise Unavailable("no logs are named: set probes.logs.files or probes.logs.containers")
        with self._lock:
            if self._closed:
                return []
            now = self._clock()
            records: list[Record] = [*self._looked_again(now), *self._told(now)]
            records += self._dumped(now)
            records += self._counters(now)
            if now - self._saved >= SAVE_SECONDS:
                self._save(now)
            return records

    def close(self) -> None:
        """Keep the positions and give the files back."""
        # A read that hangs on a dead mount keeps the lock: the end must not wait for it.
        if self._lock.acquire(timeout=0.5):
            self._closed = True
            self._save(self._clock())
            self._following.close()
            self._lock.release()

    def _looked_again(self, now: float) -> Iterator[Event]:
        if 0.0 <= now - self._looked < LOOK_SECONDS:
            return
        first = self._looked == float("-inf")
        self._looked = now
        found = places.places(self._files, self._containers)
        self._following.follow(found, skip=self._own)
        yield from self._left_errors(found, now, first=first)

    def _told(self, now: float) -> Iterator[Event]:
        for line in self._following.lines(BYTES_PER_READ, MIN_PER_LOG):
            fact = line.fact
            of = line.place
            quiet = fact.kind in chatter()
            if fact.kind == "launcher_echo":
                continue
            if self._quota.admits(of.name, fact.kind, fact.text, now, chatter=quiet):
                yield Event(
                    self._time(line.time, now),
                    f"log:{of.name}",
                    line.text[:MAX_LINE],
                    fact.kind,
                    {**of.fields, **fact.fields},
                )

    def _left_errors(
        self, found: Sequence[places.Place], now: float, *, first: bool
    ) -> Iterator[Event]:
        old = self._positions.known
        for path in places.error_files(found, self._files):
            try:
                changed = path.stat().st_mtime
                if self._error_files.get(path) == changed:
                    continue
                text = path.read_bytes()[:MAX_ERROR_FILE].decode("utf-8", "replace")
            except OSError:
                continue
            told = error_file(text)
            if told is None:
                continue
            self._error_files[path] = changed
            if first and (old is None or path in old):
                continue
            of = places.place(path)
            yield Event(
                self._time(told.time, now),
                f"log:{of.name}",
                told.message[:MAX_LINE],
                "error_file",
                dict(of.fields),
            )

    def _dumped(self, now: float) -> Iterator[Event]:
        if self._dumps is None:
            return
        fresh: list[Path] = []
        with contextlib.suppress(OSError):
            fresh = self._dumps.new(now)
        for line, fields in self._judge(fresh) if fresh else ():
            yield Event(now, "log:flight-recorder", line[:MAX_LINE], "flight_recorder", fields)

    def _counters(self, now: float) -> Iterator[Sample]:
        following = self._following
        for name, value in (
            ("gpudiag_log_files", following.number),
            ("gpudiag_log_files_unreadable", following.unreadable),
            ("gpudiag_log_lines_dropped_total", self._quota.dropped),
            ("gpudiag_log_lines_cut_total", following.cut),
            ("gpudiag_log_skipped_bytes_total", following.skipped),
        ):
            yield Sample(name, (), now, float(value))

    def _time(self, stamp: float | None, now: float) -> float:
        """When it was written, as far as that can be: not tomorrow, and not long ago."""
        return stamp if stamp is not None and now - OLDEST_STAMP <= stamp <= now else now

    def _save(self, now: float) -> None:
        self._saved = now
        try:
            self._positions.save(self._following.positions(), list(self._error_files))
        except OSError as error:
            log.warning("cannot keep the positions of the logs: %s", error)
