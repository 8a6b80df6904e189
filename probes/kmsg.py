"""The kernel's log as it is written: GPU faults, OOM kills, link flaps and disk errors as events.

Reads /dev/kmsg from the oldest record the ring still holds, so that what happened between boot
and the agent's start is seen too. Needs root or CAP_SYSLOG.
"""

from __future__ import annotations

import os
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from gpudiag.probes import Event, Labels, Record, Sample, labels
from gpudiag.probes.errors import Unavailable
from gpudiag.probes.kernel_lines import parse
from gpudiag.probes.kernel_repeats import Repeats, Told

# One read() of the ring gives one record of at most 8 KiB and fails on a smaller buffer.
CHUNK = 65536
MAX_LINES_PER_READ = 20_000
MAX_EVENTS_PER_READ = 1_000
COUNTERS_EVERY_SECONDS = 5.0

Identify = Callable[[str], Labels | None]
"""From a bus id (`0000:b3:00.0`) to the GPU's `uuid` and `gpu` labels; None while unknown."""


class KmsgLine(NamedTuple):
    """One record: `seq` and `usec` (since boot) are None where the line has no such header."""

    seq: int | None
    usec: int | None
    text: str


_HEADER = re.compile(rb"\d{1,10},(\d{1,20}),(\d{1,20}),[^;]*;")
_ESCAPE = re.compile(r"\\x([0-9a-fA-F]{2})")


def parse_record(raw: bytes) -> KmsgLine | None:
    """One line of /dev/kmsg; None for the ` KEY=value` lines that follow a record, and for none."""
    if not raw or raw.startswith(b" "):
        return None
    header = _HEADER.match(raw)
    text = (raw[header.end() :] if header else raw).decode("utf-8", "replace")
    if "\\x" in text:
        text = _ESCAPE.sub(lambda found: chr(int(found[1], 16)), text)
    if not header:
        return KmsgLine(None, None, text)
    return KmsgLine(int(header[1]), int(header[2]), text)


def _since_boot() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def _no_gpu(_: str) -> Labels | None:
    return None


class Kmsg:
    """The probe; `resume` is the `position` of the agent's last run, so that nothing is retold."""

    name = "kmsg"
    cadence = 0.2
    metrics = frozenset(
        {
            "gpudiag_gpu_xid_errors_total",
            "gpudiag_kmsg_dropped_total",
            "gpudiag_kmsg_lost_total",
            "gpudiag_kmsg_repeats_total",
        }
    )

    def __init__(
        self,
        path: Path = Path("/dev/kmsg"),
        *,
        clock: Callable[[], float] = time.time,
        since_boot: Callable[[], float] = _since_boot,
        identify: Identify = _no_gpu,
        boot_id: str = "",
        resume: str = "",
    ) -> None:
        self._path, self._clock, self._since_boot = path, clock, since_boot
        self._identify, self._boot_id = identify, boot_id
        boot, _, seq = resume.rpartition("/")
        self._seq = int(seq) if seq.isdigit() and boot == boot_id else None
        self._fd: int | None = None
        self._tail = b""
        self._after_gap = self._seq is not None
        self._read_up_to = self._now = self._boot = 0.0
        self._told_counters = float("-inf")
        self._xids: Counter[tuple[str, int]] = Counter()
        self._repeats = Repeats()
        self._lost = self._dropped = 0

    @property
    def position(self) -> str:
        """Where reading has come to: hand it to the next run as `resume`."""
        return f"{self._boot_id}/{'' if self._seq is None else self._seq}"

    def read(self) -> list[Record]:
        """The events since the last call, of at most `MAX_LINES_PER_READ` lines, and counters."""
        if self._fd is None:
            self._open()
        self._now = self._clock()
        self._boot = self._now - self._since_boot()
        seen = self._xids.total()
        events: list[Event] = []
        for raw in self._lines():
            told = self._told(raw)
            if told is not None:
                self._keep(events, self._repeats.admit(told))
        self._keep(events, self._repeats.due(self._now))
        changed = self._xids.total() != seen
        return [*events, *self._counters(self._now, changed)]

    def close(self) -> None:
        fd, self._fd = self._fd, None
        if fd is not None:
            os.close(fd)

    def _open(self) -> None:
        try:
            self._fd = os.open(self._path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            raise Unavailable(
                f"cannot read the kernel log {self._path}: {error.strerror}; run the agent as "
                "root or with CAP_SYSLOG, and mount /dev/kmsg into its container"
            ) from error
        self._tail = b""

    def _lines(self) -> Iterator[bytes]:
        count = 0
        while count < MAX_LINES_PER_READ:
            chunk = self._chunk(count)
            if not chunk:
                # Whatever a later call reads was written after this one began.
                self._read_up_to = self._now
                return
            *lines, tail = (self._tail + chunk).split(b"\n")
            self._tail = tail if len(tail) < CHUNK else b""
            count += len(lines)
            yield from lines

    def _chunk(self, count: int) -> bytes:
        for _ in range(MAX_LINES_PER_READ):
            if self._fd is None:
                break
            try:
                return os.read(self._fd, CHUNK)
            except BlockingIOError:
                break
            except BrokenPipeError:
                # The ring overwrote what came next; the following record's number tells how much.
                self._after_gap = True
            except OSError:
                self._after_gap = True
                self.close()
                if not count:
                    raise
        return b""

    def _keep(self, events: list[Event], more: Iterable[Event]) -> None:
        for event in more:
            if len(events) < MAX_EVENTS_PER_READ:
                events.append(event)
            else:
                self._dropped += 1

    def _told(self, raw: bytes) -> Told | None:
        line = parse_record(raw)
        if line is None or not self._is_new(line.seq):
            return None
        fact = parse(line.text)
        if fact is None:
            return None
        if fact.kind == "xid" and fact.code is not None:
            self._xids[fact.pci, fact.code] += 1
        return Told(self._time(line.usec), line.seq, line.text, fact)

    def _is_new(self, seq: int | None) -> bool:
        if seq is None:
            return True
        last = self._seq
        # A reopened log starts again at its oldest record.
        if last is not None and seq <= last:
            return False
        if self._after_gap and last is not None:
            self._lost += seq - last - 1
        self._after_gap, self._seq = False, seq
        return True

    def _time(self, usec: int | None) -> float:
        if usec is None:
            return self._now
        # The kernel's stamp is never disciplined and drifts by seconds a month: what is known of
        # the moment of reading bounds it.
        return min(max(self._boot + usec / 1e6, self._read_up_to), self._now)

    def _counters(self, now: float, changed: bool) -> Iterator[Sample]:
        if not changed and 0 <= now - self._told_counters < COUNTERS_EVERY_SECONDS:
            return
        self._told_counters = now
        yield Sample("gpudiag_kmsg_dropped_total", (), now, float(self._dropped))
        yield Sample("gpudiag_kmsg_lost_total", (), now, float(self._lost))
        yield Sample("gpudiag_kmsg_repeats_total", (), now, float(self._repeats.total))
        for (pci, code), count in self._xids.items():
            gpu = self._identify(pci)
            if gpu is not None:
                pairs = labels(**dict(gpu), xid=str(code))
                yield Sample("gpudiag_gpu_xid_errors_total", pairs, now, float(count))
