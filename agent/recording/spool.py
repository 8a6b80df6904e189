"""The spool: samples as they come, in binary, until a recording is complete."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt

from gpudiag.agent import files
from gpudiag.agent.recording.timeline import Columns, SeriesKey
from gpudiag.probes import Event, Sample

SERIES = "series.jsonl"
SAMPLES = "samples.spool"
EVENTS = "events.jsonl"

ROW = np.dtype([("series", "<u4"), ("time", "<f8"), ("value", "<f8")])
"""One sample: its line in `series.jsonl`, epoch seconds, value."""

Rows = npt.NDArray[np.void]

pack = struct.Struct("<Idd").pack
"""One row as bytes, from series number, time and value."""

_FLUSH_BYTES = 256 * 1024
_KEY = msgspec.json.Decoder(tuple[str, tuple[tuple[str, str], ...]])


class Spool:
    """Appends samples and events to files in `folder`; memory does not grow with their number."""

    def __init__(self, folder: Path) -> None:
        self._files = {name: _private(folder / name) for name in (SERIES, SAMPLES, EVENTS)}
        self._numbers: dict[SeriesKey, int] = {}
        self._waiting = {name: bytearray() for name in self._files}

    def add(self, samples: Iterable[Sample], events: Iterable[Event]) -> None:
        """Take one batch; raises `OSError` where the disk does not."""
        rows = self._waiting[SAMPLES]
        for metric, labels, time, value in samples:
            number = self._numbers.get((metric, labels))
            if number is None:
                number = self._number((metric, labels))
            rows += pack(number, time, value)
        for event in events:
            self._waiting[EVENTS] += msgspec.json.encode(event) + b"\n"
        self._flush_if_much()

    def add_rows(self, keys: Sequence[SeriesKey], rows: Rows) -> None:
        """Take rows whose series are indices into `keys`; raises `OSError`."""
        known = (self._numbers.get(key) for key in keys)
        numbers = [self._number(k) if n is None else n for k, n in zip(keys, known, strict=True)]
        rows = rows.copy()
        rows["series"] = np.array(numbers, dtype=np.uint32)[rows["series"]]
        self._waiting[SAMPLES] += rows.tobytes()
        self._flush_if_much()

    def _number(self, key: SeriesKey) -> int:
        self._waiting[SERIES] += msgspec.json.encode(key) + b"\n"
        return self._numbers.setdefault(key, len(self._numbers))

    def _flush_if_much(self) -> None:
        if sum(map(len, self._waiting.values())) > _FLUSH_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write what waits: names before the samples that need them."""
        for name, waiting in self._waiting.items():
            _write_all(self._files[name], waiting)
            waiting.clear()

    def close(self) -> None:
        """Close the files; what was not flushed is gone."""
        for file in self._files.values():
            os.close(file)


def load(folder: Path) -> tuple[list[SeriesKey], Rows]:
    """Series and rows of a spool, also of one that a kill cut off in the middle of a row."""
    whole_lines = _content(folder / SERIES).split(b"\n")[:-1]
    keys: list[SeriesKey] = [_KEY.decode(line) for line in whole_lines]
    data = _content(folder / SAMPLES)
    rows: Rows = np.frombuffer(data, dtype=ROW, count=len(data) // ROW.itemsize)
    return keys, rows[rows["series"] < len(keys)]


def _content(path: Path) -> bytes:
    with files.opened(path) as file:
        return file.read()


def columns(folder: Path) -> list[Columns]:
    """The series of a spool, each with its times and values."""
    keys, rows = load(folder)
    order = np.argsort(rows["series"], kind="stable")
    rows = rows[order]
    edges = np.searchsorted(rows["series"], np.arange(len(keys) + 1))
    return [
        (key, rows["time"][first:last], rows["value"][first:last])
        for key, first, last in zip(keys, edges[:-1], edges[1:], strict=True)
    ]


def _private(path: Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)


def _write_all(file: int, data: bytearray) -> None:
    view = memoryview(bytes(data))
    while view:
        view = view[os.write(file, view) :]
