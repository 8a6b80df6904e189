"""The right to act, where several agents see the same job: a lock in a folder that they share."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path


class FileLease:
    """One small file a target, changed under a file lock: who holds it, until when (epoch seconds).

    Agents must share the folder and agree on the time to a few seconds. A file that cannot be read
    is held by somebody else.
    """

    def __init__(self, folder: Path, holder: str, now: Callable[[], float]) -> None:
        self._folder = folder
        self._holder = holder
        self._now = now

    def hold(self, target: str, seconds: float) -> bool:
        """See `Lease.hold`."""
        return self._change(target, self._now() + seconds)

    def release(self, target: str) -> None:
        """Give it back at once; somebody else's is left alone."""
        self._change(target, 0.0)

    def _change(self, target: str, until: float) -> bool:
        name = hashlib.sha256(target.encode()).hexdigest()[:24]
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
            descriptor = os.open(self._folder / f"{name}.lease", flags, 0o600)
        except OSError:
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return self._take(descriptor, target, until)
        except (OSError, ValueError, KeyError, TypeError):
            return False
        finally:
            os.close(descriptor)

    def _take(self, descriptor: int, target: str, until: float) -> bool:
        if text := os.pread(descriptor, 4096, 0):
            held = json.loads(text)
            if held["holder"] != self._holder and float(held["until"]) > self._now():
                return False
        new = json.dumps({"holder": self._holder, "target": target, "until": until}).encode()
        os.pwrite(descriptor, new, 0)
        os.ftruncate(descriptor, len(new))
        os.fsync(descriptor)
        return True


class NoLease:
    """One agent sees everything: the right is always its own."""

    def hold(self, target: str, seconds: float) -> bool:
        """Always."""
        return bool(target) and seconds > 0

    def release(self, target: str) -> None:
        """There is nothing to give back."""
