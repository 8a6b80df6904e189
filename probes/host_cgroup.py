"""Memory of the control groups that the agent and the watched processes live in, v2 or v1.

The group reported for a process is the nearest one, going up, that has a limit: Slurm and systemd
put the limit some levels above the task.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import ClassVar

from gpudiag.probes import Labels, Sample, labels
from gpudiag.probes.kept_file import KeptFile

MAX_GROUPS = 64
RESOLVE_EVERY_READS = 12
# v1 writes "no limit" as the largest multiple of a page below 2^63.
NO_LIMIT = float(2**62)


@dataclass(frozen=True, slots=True)
class _Names:
    folder: str
    used: str
    limit: str
    events: str
    cache: str


V2 = _Names("", "memory.current", "memory.max", "memory.events", "inactive_file")
V1 = _Names(
    "memory",
    "memory.usage_in_bytes",
    "memory.limit_in_bytes",
    "memory.oom_control",
    "total_inactive_file",
)


def parse_membership(text: str) -> tuple[_Names, str] | None:
    """From /proc/PID/cgroup: whose memory files hold, and the path of the group."""
    unified = None
    for line in text.splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if "memory" in controllers.split(","):
            return V1, path
        if number == "0":
            unified = path
    return None if unified is None else (V2, unified)


def parse_keyed(text: str) -> dict[str, float]:
    """The numbers of a file of `key value` lines (memory.stat, memory.events)."""
    rows = (line.split() for line in text.splitlines())
    return {row[0]: float(row[1]) for row in rows if len(row) == 2}


def parse_limit(text: str | None) -> float | None:
    """Bytes; None where the group has no limit."""
    if text is None or not text.strip().isdigit():
        return None
    limit = float(text)
    return limit if limit < NO_LIMIT else None


class _Group:
    def __init__(self, folder: Path, names: _Names, pairs: Labels) -> None:
        self._names, self._labels = names, pairs
        self._files = {
            name: KeptFile(folder / name)
            for name in (names.used, names.limit, names.events, "memory.stat")
        }

    def read(self, now: float) -> Iterator[Sample]:
        names, files = self._names, self._files
        used = files[names.used].number()
        if used is not None:
            cache = parse_keyed(files["memory.stat"].read() or "").get(names.cache, 0.0)
            yield self._sample("memory_bytes", now, max(used - cache, 0.0))
        limit = parse_limit(files[names.limit].read())
        if limit is not None:
            yield self._sample("memory_limit_bytes", now, limit)
        kills = parse_keyed(files[names.events].read() or "").get("oom_kill")
        if kills is not None:
            yield self._sample("oom_kills_total", now, kills)

    def close(self) -> None:
        for file in self._files.values():
            file.close()

    def _sample(self, what: str, now: float, value: float) -> Sample:
        return Sample(f"gpudiag_cgroup_{what}", self._labels, now, value)


class CgroupMemory:
    """Reads the groups of the agent and of `pids()`; groups nobody is in any more are let go."""

    metrics: ClassVar = frozenset(
        {
            "gpudiag_cgroup_memory_bytes",
            "gpudiag_cgroup_memory_limit_bytes",
            "gpudiag_cgroup_oom_kills_total",
        }
    )

    def __init__(self, proc: Path, root: Path, pids: Callable[[], Iterable[int]]) -> None:
        self._proc, self._root, self._pids = proc, root, pids
        self._groups: dict[Path, _Group] = {}
        self._resolved: dict[str, tuple[Path, _Names] | None] = {}
        self._reads = 0

    def read(self, now: float) -> Iterator[Sample]:
        """Memory in use (less file cache that can be dropped), limit and OOM kills of each."""
        # Looking for a limit up the tree costs more than reading it: look again now and then only.
        if self._reads % RESOLVE_EVERY_READS == 0:
            self._resolved.clear()
        self._reads += 1
        wanted = dict(self._wanted())
        for folder in self._groups.keys() - wanted.keys():
            self._groups.pop(folder).close()
        for folder, names in wanted.items():
            if folder not in self._groups:
                path = folder.relative_to(self._root / names.folder).as_posix()
                pairs = labels(cgroup="/" if path == "." else f"/{path}")
                self._groups[folder] = _Group(folder, names, pairs)
            yield from self._groups[folder].read(now)

    def close(self) -> None:
        """Give the descriptors back."""
        for group in self._groups.values():
            group.close()

    def _wanted(self) -> Iterator[tuple[Path, _Names]]:
        for name in ["self", *map(str, list(self._pids())[:MAX_GROUPS])]:
            try:
                text = (self._proc / name / "cgroup").read_text()
            except (FileNotFoundError, ProcessLookupError):
                continue
            if text not in self._resolved:
                self._resolved[text] = self._resolve(text)
            found = self._resolved[text]
            if found is not None:
                yield found

    def _resolve(self, text: str) -> tuple[Path, _Names] | None:
        member = parse_membership(text)
        if member is None:
            return None
        names, path = member
        return self._limited(self._root / names.folder, path, names), names

    def _limited(self, root: Path, path: str, names: _Names) -> Path:
        # Without a cgroup namespace of its own a container sees a path that is not in its mount:
        # the mount's root is then its group.
        own = root / path.strip("/")
        if not own.is_dir():
            return root
        for part in [PurePosixPath(path), *PurePosixPath(path).parents]:
            folder = root / str(part).strip("/")
            limit = folder / names.limit
            if limit.is_file() and parse_limit(limit.read_text()) is not None:
                return folder
        return own
