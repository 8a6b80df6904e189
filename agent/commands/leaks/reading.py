"""The files of a report: found, chosen by rank, read in children with their progress shown."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
from rich.console import Console
from rich.progress import Progress

from gpudiag.agent.analysis.memory import words
from gpudiag.agent.analysis.memory.asked import Holder
from gpudiag.agent.analysis.memory.digest import Digest
from gpudiag.agent.analysis.memory.isolated import digest_file
from gpudiag.agent.analysis.memory.report import rank_of
from gpudiag.probes.errors import UsageError

SUFFIXES = (".pickle", ".pkl", ".json", ".gz")
TOGETHER = 256 * 2**20
"""Bytes of files that two children may read at the same time; each takes four times its file."""


def files(paths: Sequence[Path], rank: int | None) -> list[tuple[int | None, Path]]:
    """The snapshot files named, those of a folder included, with the rank their path tells."""
    found = [file for path in paths for file in _files_of(path)]
    ranked = [(rank_of(str(file)), file) for file in found]
    if rank is None:
        return ranked
    chosen = [(r, file) for r, file in ranked if r == rank]
    if not chosen:
        have = sorted({r for r, _ in ranked if r is not None})
        raise UsageError(f"no file names rank {rank}: the paths tell of ranks {have or 'none'}")
    return chosen


def _files_of(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    inside = sorted(p for p in path.rglob("*") if p.suffix in SUFFIXES and p.is_file())
    if not inside:
        raise UsageError(f"{path} has no snapshots: files that end with {', '.join(SUFFIXES)}")
    return inside


def digests(
    chosen: Sequence[tuple[int | None, Path]], most: int, console: Console
) -> list[tuple[int | None, Digest]]:
    """Read them all; progress goes to `console` where that is a terminal."""
    sizes = [_size(path) for _, path in chosen]
    workers = 2 if sum(sizes) < TOGETHER and (os.cpu_count() or 1) > 1 else 1
    with (
        Progress(console=console, transient=True, disable=not console.is_terminal) as bar,
        ThreadPoolExecutor(workers) as pool,
    ):
        overall = bar.add_task("reading", total=max(1, sum(sizes)))

        def read(path: Path, size: int) -> Digest:
            named = f"{path.name} ({words.size(size)})"
            found = digest_file(
                path, most=most, tell=lambda s: bar.update(overall, description=f"{named}: {s}")
            )
            bar.advance(overall, size)
            return found

        read_all = list(pool.map(read, (path for _, path in chosen), sizes))
    return [(rank, digest) for (rank, _), digest in zip(chosen, read_all, strict=True)]


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error


def census(path: Path | None) -> tuple[Holder, ...]:
    """The holders of a census file: a list of objects with the fields of `Holder`."""
    if path is None:
        return ()
    try:
        plain = msgspec.json.decode(path.read_bytes())
        plain = plain.get("holders", plain) if isinstance(plain, dict) else plain
        return msgspec.convert(plain, tuple[Holder, ...], strict=False)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error
    except (msgspec.DecodeError, msgspec.ValidationError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} is not a census: {error}") from None
