"""The last minutes in memory, packed: everything that passed, also of what is now silent."""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from gpudiag.agent.recording.spool import ROW, Rows, pack
from gpudiag.agent.recording.timeline import SeriesKey
from gpudiag.probes import Event, Sample

_SEGMENT_SECONDS = 60.0
_COLUMNS = ("series", "time", "value")
_MAX_EVENTS = 5_000
"""Events of one segment; a flood of lines beyond them says nothing new."""


@dataclass(frozen=True, slots=True)
class _Segment:
    """About a minute: `packed` are rows whose series are indices into `keys`, see `_pack`."""

    newest: float
    keys: tuple[SeriesKey, ...]
    packed: bytes
    events: tuple[Event, ...]


class Ring:
    """What came in the last `seconds` of the samples' own time, in at most `max_bytes` packed."""

    def __init__(self, seconds: float, max_bytes: int) -> None:
        self._seconds = seconds
        self._max_bytes = max_bytes
        self._segments: deque[_Segment] = deque()
        self._numbers: dict[SeriesKey, int] = {}
        self._rows = bytearray()
        self._events: list[Event] = []
        self._first: float | None = None
        self._newest = 0.0

    def add(self, samples: Sequence[Sample], events: Sequence[Event]) -> None:
        """Take one batch."""
        if not samples and not events:
            return
        numbers, rows = self._numbers, self._rows
        for metric, labels, time, value in samples:
            rows += pack(numbers.setdefault((metric, labels), len(numbers)), time, value)
        self._events += events[: _MAX_EVENTS - len(self._events)]
        self._newest = samples[-1].time if samples else events[-1].time
        if self._first is None:
            self._first = self._newest
        # Not less than: a clock that was set back must not keep one segment open for ever.
        if not 0.0 <= self._newest - self._first < _SEGMENT_SECONDS:
            self._finish_segment()

    def _finish_segment(self) -> None:
        packed = _pack(self._rows)
        segment = _Segment(self._newest, tuple(self._numbers), packed, tuple(self._events))
        self._segments.append(segment)
        self._numbers, self._rows, self._events, self._first = {}, bytearray(), [], None
        while self._segments and self._newest - self._segments[0].newest > self._seconds:
            self._segments.popleft()
        while sum(len(s.packed) for s in self._segments) > self._max_bytes:
            self._segments.popleft()

    def contents(self) -> Iterator[tuple[tuple[SeriesKey, ...], Rows, tuple[Event, ...]]]:
        """Keys, rows and events of each segment, oldest first."""
        for segment in self._segments:
            yield segment.keys, _unpack(segment.packed), segment.events
        yield tuple(self._numbers), np.frombuffer(bytes(self._rows), ROW), tuple(self._events)


def _pack(rows: bytearray) -> bytes:
    # Series by series and column by column: half as large as in the order they came.
    table = np.frombuffer(rows, ROW)
    table = table[np.argsort(table["series"], kind="stable")]
    return zlib.compress(b"".join(table[name].tobytes() for name in _COLUMNS), 1)


def _unpack(packed: bytes) -> Rows:
    """The rows in the order of their times."""
    data = zlib.decompress(packed)
    table = np.empty(len(data) // ROW.itemsize, ROW)
    start = 0
    for name in _COLUMNS:
        table[name] = np.frombuffer(data, ROW[name], len(table), start)
        start += table[name].nbytes
    return table[np.argsort(table["time"], kind="stable")]
