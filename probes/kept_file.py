"""A small kernel file that is read again and again: opened once, then one system call a read."""

from __future__ import annotations

import errno
import os
from pathlib import Path

SIZE = 65536
# Whatever else the kernel answers is about the thing read: PSI switched off gives EOPNOTSUPP, a
# removed device ENODEV, dead firmware EIO. One broken card must not hide the others.
OWN_TROUBLE = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})


class KeptFile:
    """Holds the descriptor of one file of /proc or /sys of at most 64 KiB."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._fd: int | None = None

    def read(self) -> str | None:
        """The contents now; None where there is nothing to be read, or it fails to say."""
        kept = self._fd is not None
        try:
            return self._text()
        except OSError as error:
            self.close()
            # A device that went and came back under its old name needs a new descriptor.
            if kept:
                return self.read()
            if error.errno in OWN_TROUBLE:
                raise
            return None

    def number(self) -> float | None:
        """The contents as a number, None where there is none."""
        text = self.read()
        try:
            return None if text is None else float(text)
        except ValueError:
            return None

    def close(self) -> None:
        """Give the descriptor back."""
        fd, self._fd = self._fd, None
        if fd is not None:
            os.close(fd)

    def _text(self) -> str:
        if self._fd is None:
            self._fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        return os.pread(self._fd, SIZE, 0).decode("utf-8", "replace")
