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
from typing import IO, Any, NoReturn

from gpudiag.probes.errors import UsageError

MAX_BYTES = 4 * 2**30
"""Bytes of the largest snapshot that is read, unpacked; torch's viewer gives up at a tenth."""

_GZIP = b"\x1f\x8b"
_JSON_STARTS = b"{["
_PICKLE_STARTS = b"\x80(]}"
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


def _read(name: str, file: IO[bytes], most: int) -> Any:
    start = file.read(2)
    file.seek(0)
    packed = start == _GZIP
    unpacked = gzip.GzipFile(fileobj=file) if packed else file
    source = io.BufferedReader(_Bounded(unpacked, most), 2**18)
    try:
        head = source.peek(16).lstrip()[:1]
        if not head:
            raise UsageError(f"{name} is empty: the process died before it wrote the snapshot")
        if head in _PICKLE_STARTS and not _is_json(source.peek(16).lstrip()):
            return _Plain(source).load()
        if head in _JSON_STARTS:
            return json.load(source, object_hook=_shared_frames())
    except _TooLarge:
        raise UsageError(f"{name} is larger than {most} bytes: allow more with --max-size") from None
    except _Refused as error:
        raise UsageError(f"{name} is no snapshot: it asks for {error}; nothing was run") from None
    except MemoryError:
        raise UsageError(f"{name} asks for more memory than its size allows; refused") from None
    except (EOFError, zlib.error, gzip.BadGzipFile, pickle.UnpicklingError) as error:
        raise UsageError(f"{name} is cut off or damaged ({_brief(error)})") from None
    except RecursionError:
        raise UsageError(f"{name} is nested too deeply for a snapshot") from None
    except Exception as error:  # The unpickler and the JSON scanner raise nearly every class.
        raise UsageError(f"{name} is not a torch memory snapshot ({_brief(error)})") from None
    raise UsageError(f"{name} is not a torch memory snapshot: neither pickle nor JSON")


def _is_json(head: bytes) -> bool:
    """`}` and `]` also start pickles of protocol 1; `[` and `{` never do."""
    return head[:1] in _JSON_STARTS


def _brief(error: BaseException) -> str:
    if isinstance(error, UsageError):
        raise error
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

    def __init__(self, source: IO[bytes], most: int) -> None:
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
