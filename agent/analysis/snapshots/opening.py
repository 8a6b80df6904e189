"""From a file to plain objects: pickle or JSON, packed by gzip or not, told by its first bytes.

A pickle may only build plain objects: every opcode that names a class is refused, so no code of
the file can run. What a hostile pickle can still do is eat memory or, by keys nested a million
deep, the C stack: read files that are not your own with `isolated`, which does both in a child.
"""

from __future__ import annotations

import gc
import gzip
import io
import json
import pickle
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

from gpudiag.probes.errors import UsageError

MAX_BYTES = 4 * 2**30
"""Bytes of the largest snapshot that is read, unpacked; torch's viewer gives up at a tenth."""

_GZIP = b"\x1f\x8b"
_JSON_STARTS = b"{["
# Protocol 0 and 1 start with their first object, and `]` and `}` are an empty list and dict.
_PICKLE_STARTS = b"\x80(]}cl"
_FRAME_KEYS = {"filename", "line", "name"}


def opened(path: Path, most: int = MAX_BYTES) -> Any:
    """The plain objects of a snapshot file; raises `UsageError` with one line where there are none.

    `most` is the largest size in bytes, after unpacking. The garbage collector rests meanwhile:
    it would look at millions of objects of which none is garbage.
    """
    try:
        with path.open("rb") as file, _gc_paused():
            return _read(path.name, file, most)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror or error}") from error


def _read(name: str, file: io.BufferedReader, most: int) -> Any:
    try:
        return _objects(name, _unpacked(file, most))
    except UsageError:
        raise
    except _TooLarge:
        why = f"is larger than {most} bytes: allow more with --max-size"
    except _Refused as error:
        why = f"is no snapshot: it asks for {error}; nothing was run"
    except MemoryError:
        why = "asks for more memory than its size allows; refused"
    except RecursionError:
        why = "is nested too deeply for a snapshot"
    except (EOFError, zlib.error, gzip.BadGzipFile, pickle.UnpicklingError) as error:
        why = f"is cut off or damaged ({_brief(error)})"
    except Exception as error:  # The unpickler and the JSON scanner raise nearly every class.
        why = f"is not a torch memory snapshot ({_brief(error)})"
    raise UsageError(f"{name} {why}")


def _unpacked(file: io.BufferedReader, most: int) -> io.BufferedReader:
    packed = file.read(2) == _GZIP
    if file.seek(0, io.SEEK_END) > most:
        raise _TooLarge
    file.seek(0)
    if not packed:
        return file
    return io.BufferedReader(_Bounded(gzip.GzipFile(fileobj=file), most), 2**18)


def _objects(name: str, source: io.BufferedReader) -> Any:
    head = source.peek(16).lstrip()[:1]
    if not head:
        raise UsageError(f"{name} is empty: the process died before it wrote the snapshot")
    if head in _JSON_STARTS:
        return json.load(source, object_hook=_shared_frames())
    if head in _PICKLE_STARTS:
        return _Plain(source).load()
    raise UsageError(f"{name} is not a torch memory snapshot: neither pickle nor JSON")


def _brief(error: BaseException) -> str:
    text = str(error).split("\n")[0][:80] or type(error).__name__
    return "".join(c if c.isprintable() else "?" for c in text)


class _Refused(Exception):
    """The pickle wanted a class, a function or an outside object."""


class _TooLarge(Exception):
    """More bytes than allowed."""


class _Plain(pickle.Unpickler):
    """Builds numbers, text, lists, tuples and dicts, and nothing else."""

    def find_class(self, module: str, name: str) -> NoReturn:
        raise _Refused(f"{module}.{name}"[:80].encode("ascii", "replace").decode())

    def persistent_load(self, _pid: Any) -> NoReturn:
        raise _Refused("an outside object")


class _Bounded(io.RawIOBase):
    """Passes on at most `most` bytes of a file, then raises `_TooLarge`."""

    def __init__(self, source: gzip.GzipFile, most: int) -> None:
        self._source = source
        self._left = most

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._source.read(min(len(buffer), 2**20))
        self._left -= len(data)
        if self._left < 0:
            raise _TooLarge
        buffer[: len(data)] = data
        return len(data)


def _shared_frames() -> Any:
    """JSON repeats each frame in full; one dict for equal frames keeps it as small as a pickle."""
    seen: dict[tuple[Any, ...], dict[str, Any]] = {}

    def share(found: dict[str, Any]) -> dict[str, Any]:
        if found.keys() != _FRAME_KEYS:
            return found
        try:
            return seen.setdefault(tuple(found.values()), found)
        except TypeError:
            return found

    return share


@contextmanager
def _gc_paused() -> Iterator[None]:
    running = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if running:
            gc.enable()
