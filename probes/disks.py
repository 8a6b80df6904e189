"""Room on the file systems: size and what is still available, by mount point.

A network mount whose server is gone hangs its caller for ever, so those are asked only through
`remote`, which must be able to give up.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple, Protocol

from gpudiag.probes import Record, Sample, labels
from gpudiag.probes.errors import Unavailable

LOCAL = frozenset({"ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs", "bcachefs", "jfs"})
REMOTE = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "ceph", "lustre", "gpfs", "beegfs", "glusterfs", "9p", "afs"}
)
_ESCAPES = (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\"))


class Mount(NamedTuple):
    """One line of mountinfo: `device` is major:minor, the same for every bind of a file system."""

    device: str
    point: str
    kind: str

    @property
    def remote(self) -> bool:
        return self.kind in REMOTE or self.kind == "fuse" or self.kind.startswith("fuse.")

    @property
    def real(self) -> bool:
        """Whether it holds data of its own; a container's overlay counts as its root."""
        return self.kind in LOCAL or (self.kind == "overlay" and self.point == "/")


class Space(NamedTuple):
    """Bytes in all, and those that an ordinary user can still fill."""

    size: float
    available: float


def parse_mounts(text: str) -> list[Mount]:
    """The mounts of /proc/PID/mountinfo; lines that are none are left out."""
    mounts = []
    for line in text.splitlines():
        left, _, right = line.partition(" - ")
        words, kind = left.split(" "), right.partition(" ")[0]
        if len(words) >= 6 and kind:
            point = words[4]
            for code, char in _ESCAPES:
                point = point.replace(code, char)
            mounts.append(Mount(words[2], point, kind))
    return mounts


def choose(mounts: list[Mount], is_folder: Callable[[str], bool]) -> list[Mount]:
    """One mount for each file system: a folder rather than a file, then the shortest path."""
    chosen: dict[str, Mount] = {}
    wanted = [mount for mount in mounts if mount.real or mount.remote]
    # A remote mount must not be touched to learn whether it is a folder.
    for mount in sorted(
        wanted, key=lambda m: (not m.remote and not is_folder(m.point), len(m.point), m.point)
    ):
        chosen.setdefault(mount.device, mount)
    return list(chosen.values())


def local_space(point: str) -> Space | None:
    """What statvfs says; None where the mount has gone or may not be seen."""
    try:
        found = os.statvfs(point)
    except (FileNotFoundError, PermissionError):
        return None
    return Space(float(found.f_blocks * found.f_frsize), float(found.f_bavail * found.f_frsize))


class Remote(Protocol):
    """Asks a network mount for its space, and gives up where it hangs."""

    def __call__(self, point: str, /) -> Space | None: ...

    def close(self) -> None: ...


class Disks:
    """The probe; without a `remote` network mounts are absent."""

    name = "disks"
    cadence = 30.0
    metrics = frozenset({"gpudiag_filesystem_size_bytes", "gpudiag_filesystem_available_bytes"})

    def __init__(
        self,
        mountinfo: Path = Path("/proc/self/mountinfo"),
        *,
        clock: Callable[[], float] = time.time,
        local: Callable[[str], Space | None] = local_space,
        remote: Remote | None = None,
        is_folder: Callable[[str], bool] = os.path.isdir,
    ) -> None:
        self._mountinfo, self._clock = mountinfo, clock
        self._local, self._remote, self._is_folder = local, remote, is_folder
        self._text = ""
        self._mounts: list[Mount] = []

    def read(self) -> Iterator[Record]:
        """Size and room of each file system that answered."""
        try:
            text = self._mountinfo.read_text("utf-8", "replace")
        except FileNotFoundError as error:
            raise Unavailable(f"no mount table {self._mountinfo}: mount /proc") from error
        if text != self._text:
            self._text, self._mounts = text, choose(parse_mounts(text), self._is_folder)
        for mount in self._mounts:
            ask = self._remote if mount.remote else self._local
            space = ask(mount.point) if ask else None
            if space is not None and space.size > 0:
                now, pairs = self._clock(), labels(mountpoint=mount.point)
                yield Sample("gpudiag_filesystem_size_bytes", pairs, now, space.size)
                yield Sample("gpudiag_filesystem_available_bytes", pairs, now, space.available)

    def close(self) -> None:
        if self._remote is not None:
            self._remote.close()
