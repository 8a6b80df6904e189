"""What `gpudiag explain` is given: files, folders or a pipe, sorted into log text and dumps."""

from __future__ import annotations

import sys
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from gpudiag.agent.analysis import log_flight_causes, log_flight_opening
from gpudiag.agent.analysis.causes import Reading
from gpudiag.agent.analysis.log_causes import explain
from gpudiag.agent.analysis.log_flight_dump import Dump
from gpudiag.probes.errors import GpudiagError, UsageError
from gpudiag.probes.logs.elastic import error_file

MAX_BYTES = 64 << 20
"""Of a larger text the end is read: what ended the job stands there."""
MAX_FILES = 1024


@dataclass(slots=True)
class Given:
    """All that was read: `texts` by name, `dumps`, and how many bytes were left out."""

    texts: list[tuple[str, list[str]]] = field(default_factory=list)
    dumps: list[Dump] = field(default_factory=list)
    skipped: int = 0

    def explained(self) -> Reading:
        """All logs judged together, and all dumps."""
        lines = [line for _, text in self.texts for line in text]
        read = explain("\n".join(lines))
        found = (*log_flight_causes.causes(self.dumps), *read.causes)
        return Reading(len(lines), found)

    def where(self, line: int) -> tuple[str, int]:
        """The file that holds a line of the whole ("" where there is one only), and its number."""
        if len(self.texts) < 2 or line < 1:
            return "", line
        starts = [0]
        for _, text in self.texts:
            starts.append(starts[-1] + len(text))
        at = min(bisect_right(starts, line - 1) - 1, len(self.texts) - 1)
        return self.texts[at][0], line - starts[at]


def read(names: Sequence[Path]) -> Given:
    """Everything named, `-` for the pipe; raises `UsageError` for what cannot be read."""
    given = Given()
    if not names or [str(name) for name in names] == ["-"]:
        if sys.stdin.isatty():
            raise UsageError("nothing to read: name a file, or pipe a log into `gpudiag explain`")
        _take(given, Path("-"), sys.stdin.buffer)
    for path in _files(name for name in names if str(name) != "-"):
        try:
            with path.open("rb") as file:
                _take(given, path, file)
        except OSError as error:
            raise UsageError(f"cannot read {path}: {error.strerror}") from error
    if not given.dumps and not any(line.strip() for _, text in given.texts for line in text):
        raise GpudiagError("no text in it: give the log from before the failure to its end")
    return given


def _files(names: Iterable[Path]) -> Iterator[Path]:
    for name in names:
        if name.is_dir():
            inside = sorted(path for path in name.rglob("*") if path.is_file())[:MAX_FILES]
            if not inside:
                raise UsageError(f"{name} holds no file: name a log, or a folder of logs or dumps")
            yield from inside
        else:
            yield name


def _take(given: Given, path: Path, file: BinaryIO) -> None:
    head = file.peek(4096)[:4096] if hasattr(file, "peek") else b""
    if log_flight_opening.looks_like_one(head):
        raw = file.read(log_flight_opening.MAX_BYTES + 1)
        dump = log_flight_opening.opened(path, raw)
        if dump:
            given.dumps.append(dump)
            return
        if head[:1] == b"\x80":
            raise UsageError(
                f"{path} is no flight-recorder dump that ends in its rank's number;"
                " for a memory snapshot run `gpudiag leak-report`"
            )
        text, skipped = raw.decode("utf-8", "replace"), 0
    else:
        text, skipped = _text(file)
    # What a worker under torchrun left: its own words stand in one line of JSON.
    left = error_file(text) if path.name == "error.json" else None
    text = left.message if left else text
    given.texts.append((str(path), text.splitlines()))
    given.skipped += skipped


def _text(log: BinaryIO) -> tuple[str, int]:
    """The last `MAX_BYTES` of a file or a pipe, however long that is, and what was left out."""
    skipped = 0
    if log.seekable():
        skipped = max(log.seek(0, 2) - MAX_BYTES, 0)
        log.seek(skipped)
    kept = bytearray()
    while chunk := log.read(1 << 20):
        kept += chunk
        over = max(len(kept) - MAX_BYTES, 0)
        skipped += over
        del kept[:over]
    return kept.decode("utf-8", "replace"), skipped
