"""The files of a report: found, chosen by rank, read in children with their progress shown."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from importlib import import_module
from pathlib import Path

import msgspec

from gpudiag.agent.analysis.memory import figures
from gpudiag.agent.analysis.memory.asked import Holder
from gpudiag.agent.analysis.memory.census import holders
from gpudiag.agent.analysis.memory.digest import Digest
from gpudiag.agent.analysis.memory.isolated import digest_file
from gpudiag.probes.errors import UsageError

SUFFIXES = (".pickle", ".pkl", ".json", ".gz")
TOGETHER = 256 * 2**20
"""Bytes of files that two children may read at the same time; each takes four times its file."""


_RANK = re.compile(r"(?i)rank[-_=]?(\d+)")


def rank_of(name: str) -> int | None:
    """The rank that a file's path names: `rank3_snapshot.pickle`; None where it names none."""
    found = _RANK.findall(name)
    return int(found[-1][:6]) if found else None


def files(paths: Sequence[Path], rank: int | None) -> list[tuple[int | None, Path]]:
    """The snapshot files named, those of a folder included, with the rank their path tells."""
    found = [file for path in paths for file in _files_of(path)]
    ranked: list[tuple[int | None, Path]] = [(rank_of(str(file)), file) for file in found]
    if rank is None:
        return ranked
    chosen: list[tuple[int | None, Path]] = [(r, file) for r, file in ranked if r == rank]
    if not chosen:
        have = sorted({r for r, _ in ranked if r is not None})
        raise UsageError(f"no file names rank {rank}: the paths tell of ranks {have or 'none'}")
    return chosen


def _files_of(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    inside = sorted(
        (p for p in path.rglob("*") if p.suffix in SUFFIXES and p.is_file()), key=_natural
    )
    if not inside:
        raise UsageError(f"{path} has no snapshots: files that end with {', '.join(SUFFIXES)}")
    return inside


def _natural(path: Path) -> list[tuple[int, str]]:
    """Sort key by which step2 comes before step10."""
    parts = re.split(r"(\d+)", str(path))
    return [(int(part[:18]), "") if part.isdecimal() else (0, part) for part in parts]


def digests(
    chosen: Sequence[tuple[int | None, Path]], most: int, *, shown: bool
) -> list[tuple[int | None, Digest]]:
    """Read them all, with progress on stderr where it is `shown`."""
    sizes = [_size(path) for _, path in chosen]
    workers = 2 if sum(sizes) < TOGETHER and (os.cpu_count() or 1) > 1 else 1
    stages: list[tuple[int, str]] = []

    def read(path: Path, size: int) -> Digest:
        named = f"{path.name} ({figures.size(size)})"
        stages.append((0, f"{named}: starting"))
        found = digest_file(
            path, most=most, tell=lambda said: stages.append((0, f"{named}: {said}"))
        )
        stages.append((size, named))
        return found

    with ThreadPoolExecutor(workers) as pool:
        pending = [pool.submit(read, path, n) for (_, path), n in zip(chosen, sizes, strict=True)]
        # What shows the report takes a while to import, and the children take longer.
        import_module("gpudiag.agent.commands.leaks.terminal")
        if shown:
            _progress(pending, sum(sizes), stages)
        return [(rank, one.result()) for (rank, _), one in zip(chosen, pending, strict=True)]


def _progress(pending: Sequence[Future[Digest]], total: int, stages: list[tuple[int, str]]) -> None:
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("reading", total=max(1, total))
        while not all(one.done() for one in pending):
            while stages:
                size, said = stages.pop(0)
                bar.update(task, advance=size, description=said)
            wait(pending, timeout=0.1, return_when=FIRST_EXCEPTION)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error


def census(path: Path | None) -> tuple[Holder, ...]:
    """The holders of a census file: what the hooks' census tells, or a list of `Holder`."""
    if path is None:
        return ()
    try:
        return holders(msgspec.json.decode(path.read_bytes()))
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error
    except (msgspec.DecodeError, msgspec.ValidationError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} is not a census: {error}") from None
