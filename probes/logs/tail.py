"""One growing file read from where reading left off, through rotation, truncation and odd bytes."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import NamedTuple

MAX_LINE_BYTES = 65536
"""Of a longer line the beginning is kept, and the rest up to its end is passed over."""

MAX_BEHIND = 4 << 20
"""Bytes of backlog; of a log that grows faster than it may cost, the newest are read."""

_HEAD = 256


class Position(NamedTuple):
    """Where reading stands: the file (device, inode, its first bytes in hex) and the offset."""

    device: int
    inode: int
    offset: int
    head: str = ""


class Tail:
    """Follows the file at `path`; `position` None begins at its start.

    A position of another file (rotated, or overwritten in place) begins at the start as well.
    Raises `OSError` only from `open`.
    """

    def __init__(self, path: Path, position: Position | None = None) -> None:
        self.path = path
        self.cut = self.skipped = 0
        self._fd: int | None = None
        self._kept = position
        self._identity = (0, 0)
        self._offset = 0
        self._head = b""
        self._partial = b""
        self._overlong = False

    @property
    def position(self) -> Position | None:
        """Where the next run goes on: after the last whole line."""
        if self._fd is None:
            return self._kept
        at = self._offset - (0 if self._overlong else len(self._partial))
        return Position(*self._identity, at, self._head.hex())

    def open(self) -> bool:
        """Open it where it is not; False where it is no regular file. Raises `OSError`."""
        if self._fd is not None:
            return True
        fd = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        of = os.fstat(fd)
        if not stat.S_ISREG(of.st_mode):
            os.close(fd)
            return False
        self._fd, self._identity = fd, (of.st_dev, of.st_ino)
        self._head = os.pread(fd, _HEAD, 0)
        self._offset = self._resumed(of)
        return True

    def _resumed(self, of: os.stat_result) -> int:
        kept, self._kept = self._kept, None
        if kept is None or (kept.device, kept.inode) != (of.st_dev, of.st_ino):
            return 0
        same = self._head.hex().startswith(kept.head)
        return kept.offset if same and kept.offset <= of.st_size else 0

    def read(self, most: int) -> list[bytes]:
        """The lines that are whole by now, of at most `most` bytes."""
        if self._fd is None:
            return []
        size = os.fstat(self._fd).st_size
        if size < self._offset or (size > self._offset and self._overwritten(self._fd)):
            self._restart(self._fd, 0)
        behind = size - self._offset
        if behind > MAX_BEHIND:
            self.skipped += behind - most
            self._restart(self._fd, size - most)
            self._overlong = True
        raw = os.pread(self._fd, most, self._offset) if behind > 0 else b""
        self._offset += len(raw)
        return self._lines(raw)

    def replaced(self) -> bool:
        """Whether the name now stands for another file, or for none."""
        if self._fd is None:
            return False
        try:
            now = os.stat(self.path)
        except OSError:
            return True
        return (now.st_dev, now.st_ino) != self._identity

    def drained(self) -> bool:
        """Whether nothing is left to be read."""
        return self._fd is None or os.fstat(self._fd).st_size <= self._offset

    def close(self) -> list[bytes]:
        """Give the file back; the last line, where it had no end."""
        fd, self._fd = self._fd, None
        if fd is not None:
            os.close(fd)
        last = [] if self._overlong or not self._partial else [self._partial]
        self._partial, self._overlong = b"", False
        return last

    def _restart(self, fd: int, offset: int) -> None:
        self._offset, self._partial, self._overlong = offset, b"", False
        self._head = os.pread(fd, _HEAD, 0)

    def _overwritten(self, fd: int) -> bool:
        """Truncated and grown again beyond where it was: then its beginning is another."""
        head = os.pread(fd, _HEAD, 0)
        changed = not head.startswith(self._head)
        if not changed:
            self._head = head
        return changed

    def _lines(self, raw: bytes) -> list[bytes]:
        # Progress bars end their lines by \r; a file truncated under its writer begins with zeros,
        # and text in UTF-16 is read well enough without its zeros.
        clean = raw.replace(b"\0", b"").replace(b"\r", b"\n")
        *whole, rest = clean.split(b"\n")
        if whole:
            whole[0] = self._partial + whole[0]
            if self._overlong:
                del whole[0]
            self._partial, self._overlong = rest, False
        elif not self._overlong:
            self._partial += rest
        if len(self._partial) > MAX_LINE_BYTES:
            whole.append(self._partial[:MAX_LINE_BYTES])
            self._partial, self._overlong = b"", True
        self.cut += sum(len(line) >= MAX_LINE_BYTES for line in whole)
        return [line[:MAX_LINE_BYTES] for line in whole if line]
