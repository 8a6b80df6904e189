"""Which logs there are, and whose each one is, told by its path."""

from __future__ import annotations

import glob
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

MAX_FILES = 256
"""Files followed at once; the ones changed last are taken."""

CONTAINERS = Path("/var/log/containers")
DOCKER = Path("/var/lib/docker/containers")

_CONTAINER = re.compile(r"(?P<pod>[^_]+)_(?P<namespace>[^_]+)_(?P<container>.+)-[0-9a-f]{64}\.log$")
_ELASTIC = re.compile(r"/attempt_(?P<attempt>\d+)/(?P<local_rank>\d+)/[^/]+$")
# Names that say nothing of whose log it is: the folder's is taken.
_NAMELESS = frozenset({"stdout", "stderr", "output", "out", "err", "log", "logs", "console"})
_OURS = "gpudiag"


@dataclass(frozen=True, slots=True)
class Place:
    """A log: its `path`, what it is called in events, and what the path tells besides."""

    path: Path
    name: str
    fields: Mapping[str, str] = field(default_factory=dict)


def place(path: Path) -> Place:
    """Whose log it is: a container's, a rank's under torchrun, or the file's own name."""
    if found := _CONTAINER.fullmatch(path.name):
        return Place(path, found["pod"], found.groupdict())
    if path.name.endswith("-json.log"):
        return Place(path, _docker_name(path))
    if found := _ELASTIC.search(str(path)):
        return Place(path, "train", found.groupdict())
    stem = path.name.split(".")[0] or path.name
    return Place(path, path.parent.name if stem.lower() in _NAMELESS else stem)


def places(files: Sequence[str], folders: Sequence[Path] = ()) -> list[Place]:
    """The logs that the patterns match now, with those of the containers in `folders`."""
    paths = {Path(name) for pattern in files for name in glob.iglob(pattern, recursive=True)}
    for folder in folders:
        paths.update(folder.glob("*.log"))
        paths.update(folder.glob("*/*-json.log"))
    taken = sorted(paths, key=_changed, reverse=True)[:MAX_FILES]
    found = (place(path) for path in taken if not path.name.endswith((".gz", ".zst", ".json")))
    # The agent's own log would tell its findings as news.
    return [one for one in found if _OURS not in one.fields.get("container", one.name)]


def error_files(found: Sequence[Place], files: Sequence[str]) -> Iterator[Path]:
    """The `error.json` files of torchelastic: beside the logs of its ranks, or matched."""
    beside = {one.path.parent / "error.json" for one in found if "local_rank" in one.fields}
    named = {Path(n) for p in files if p.endswith(".json") for n in glob.iglob(p, recursive=True)}
    yield from sorted(beside | named)


def own_outputs() -> frozenset[tuple[int, int]]:
    """Device and inode of this process's standard output and error."""
    found = set()
    for descriptor in (1, 2):
        try:
            of = os.fstat(descriptor)
        except OSError:
            continue
        found.add((of.st_dev, of.st_ino))
    return frozenset(found)


def _changed(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _docker_name(path: Path) -> str:
    try:
        settings = json.loads((path.parent / "config.v2.json").read_text("utf-8"))
        return str(settings["Name"]).lstrip("/")
    except (OSError, ValueError, KeyError, TypeError):
        return path.parent.name[:12]
