"""Recordings read back: a folder or a .tar.gz with `metrics.om`, `events.jsonl`, `meta.json`."""

from __future__ import annotations

import gzip
import io
import tarfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import IO, BinaryIO, cast

import msgspec

from gpudiag.agent import files
from gpudiag.agent.recording import meta as meta_file
from gpudiag.agent.recording import openmetrics, spool
from gpudiag.agent.recording.expectations import NOTHING, Expectations
from gpudiag.agent.recording.meta import Meta
from gpudiag.agent.recording.timeline import Columns, Timeline, timeline
from gpudiag.probes import MAX_LINE, Event
from gpudiag.probes.errors import UsageError

METRICS = "metrics.om"
MAX_BYTES = 4 * 1024**3
"""Bytes that one file of a recording may unpack to: ten days of 300 series at 10 s."""

_EVENT = msgspec.json.Decoder(Event)


@dataclass(slots=True)
class _Parts:
    columns: list[Columns] | None = None
    events: list[Event] | None = None
    meta: Meta = field(default_factory=Meta)
    expectations: Expectations = NOTHING


def read(path: Path) -> Timeline:
    """The recording at `path`; raises `UsageError` saying what is wrong with it, and where."""
    try:
        parts = _folder(path) if path.is_dir() else _archive(path)
    except (tarfile.TarError, EOFError, zlib.error, OSError, msgspec.MsgspecError) as error:
        raise UsageError(f"cannot read the recording {path}: {error}") from error
    if parts.columns is None and parts.events is None:
        raise UsageError(f"{path} holds neither {METRICS} nor {spool.EVENTS}: it is no recording")
    return timeline(
        parts.columns or [],
        parts.events or [],
        start=parts.meta.start,
        expectations=parts.expectations,
    )


def _folder(folder: Path) -> _Parts:
    parts = _Parts()
    killed = (folder / spool.SERIES).exists()
    for path in sorted(folder.iterdir()):
        name = path.name.removesuffix(".gz")
        if name in _TAKERS and not (killed and name == METRICS):
            with files.opened(path) as file:
                stream = gzip.GzipFile(fileobj=file) if path.suffix == ".gz" else file
                _TAKERS[name](parts, _bounded(cast(IO[bytes], stream), str(path)), str(path))
    if killed:
        # What the recorder had written until then is as good as any recording.
        parts.columns = spool.columns(folder)
    return parts


def _archive(path: Path) -> _Parts:
    """Read as a stream, by the members' last names: nothing is ever unpacked to the disk."""
    parts = _Parts()
    seen: set[str] = set()
    with files.opened(path) as file, tarfile.open(fileobj=file, mode="r|*") as archive:
        for member in archive:
            name = PurePosixPath(member.name).name
            content = archive.extractfile(member) if member.isfile() else None
            if name not in _TAKERS or content is None:
                continue
            if name in seen:
                raise UsageError(f"{path} holds {name} twice")
            seen.add(name)
            where = f"{path}:{member.name}"
            _TAKERS[name](parts, _bounded(content, where), where)
    return parts


def _take_metrics(parts: _Parts, stream: BinaryIO, where: str) -> None:
    parts.columns = openmetrics.read(stream, where)


def _take_events(parts: _Parts, stream: BinaryIO, where: str) -> None:
    parts.events = []
    for number, line in enumerate(stream, start=1):
        # A kill may cut the last line; no other line lacks its end.
        if line.endswith(b"\n") and not line.isspace():
            try:
                event = _EVENT.decode(line)
            except (msgspec.MsgspecError, UnicodeDecodeError) as error:
                raise UsageError(f"{where}:{number}: no event: {error}") from error
            parts.events.append(replace(event, line=event.line[:MAX_LINE]))


def _take_meta(parts: _Parts, stream: BinaryIO, where: str) -> None:
    try:
        text = stream.read().decode()
    except UnicodeDecodeError as error:
        raise UsageError(f"{where}: not UTF-8 text") from error
    parts.meta, parts.expectations = meta_file.parse(text, where)


_TAKERS: dict[str, Callable[[_Parts, BinaryIO, str], None]] = {
    METRICS: _take_metrics,
    spool.EVENTS: _take_events,
    meta_file.FILE: _take_meta,
}


class _Bounded(io.RawIOBase):
    """A stream that refuses to give more than `MAX_BYTES`: a small archive may unpack to much."""

    def __init__(self, stream: IO[bytes], where: str) -> None:
        super().__init__()
        self._stream = stream
        self._where = where
        self._left = MAX_BYTES

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        data = self._stream.read(len(buffer))
        self._left -= len(data)
        if self._left < 0:
            raise UsageError(f"{self._where}: holds more than {MAX_BYTES} bytes")
        buffer[: len(data)] = data
        return len(data)


def _bounded(stream: IO[bytes], where: str) -> BinaryIO:
    return cast(BinaryIO, io.BufferedReader(_Bounded(stream, where), 1024**2))
