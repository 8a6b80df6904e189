"""Whether a folder of weights or a checkpoint is whole: index, shards, sizes, digests.

A safetensors file says in its first 8 bytes how long its header is, and in the header where each
tensor ends: a file that is shorter was cut off. Hugging Face names each file of its cache by the
sha256 of what is in it, and torch's distributed checkpoints write `.metadata` last.
"""

from __future__ import annotations

import hashlib
import json
import re
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

MAX_HEADER = 100 * 1024**2
"""The format's own limit of a header."""

INDEX = "*.index.json"
SUMS = ("SHA256SUMS", "sha256sums.txt", "checksums.sha256")
BLOCK = 4 * 1024**2

_SHARD = re.compile(r"(.+)-(\d{5})-of-(\d{5})\.(safetensors|bin)$")
_BLOB = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong with a file: `kind` is missing, cut-off, broken or differs."""

    kind: str
    file: str
    line: str


def faults(
    folder: Path, *, digests: bool = False, tell: Callable[[str, int], None] = lambda *_: None
) -> list[Fault]:
    """What is wrong in `folder`; with `digests` each file with a known sha256 is read whole.

    `tell` hears of the file being read and of bytes done. An empty folder is a fault, too.
    """
    if not folder.is_dir():
        return [Fault("missing", str(folder), f"weights missing: {folder} is no folder")]
    files = sorted(path for path in folder.iterdir() if path.is_file())
    found = [*_indexed(folder), *_sharded(files), *_checkpoint(folder, files)]
    found += [fault for path in files if path.suffix == ".safetensors" for fault in _cut(path)]
    if digests:
        found += _differing(folder, files, tell)
    if not files:
        found.append(Fault("missing", folder.name, f"weights missing: {folder} is empty"))
    return list(dict.fromkeys(found))


def _indexed(folder: Path) -> Iterator[Fault]:
    for index in sorted(folder.glob(INDEX)):
        try:
            named = set(json.loads(index.read_bytes())["weight_map"].values())
        except (OSError, ValueError, KeyError, AttributeError, TypeError) as error:
            yield Fault("broken", index.name, f"the index of the weights is broken: {error}")
            continue
        for shard in sorted(named):
            if not (folder / str(shard)).is_file():
                yield _missing(str(shard))


def _sharded(files: list[Path]) -> Iterator[Fault]:
    groups: dict[tuple[str, str, str], set[int]] = {}
    for path in files:
        if parts := _SHARD.fullmatch(path.name):
            groups.setdefault((parts[1], parts[3], parts[4]), set()).add(int(parts[2]))
    for (stem, of, kind), numbers in sorted(groups.items()):
        for number in range(1, int(of) + 1):
            if number not in numbers:
                yield _missing(f"{stem}-{number:05d}-of-{of}.{kind}")


def _missing(name: str) -> Fault:
    return Fault("missing", name, f"weights shard missing: {name}")


def _checkpoint(folder: Path, files: list[Path]) -> Iterator[Fault]:
    if any(path.suffix == ".distcp" for path in files) and not (folder / ".metadata").is_file():
        line = f"incomplete checkpoint {folder.name}: .metadata, written last, is missing"
        yield Fault("cut-off", ".metadata", line)


def _cut(path: Path) -> Iterator[Fault]:
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            head = file.read(8)
            length = struct.unpack("<Q", head)[0] if len(head) == 8 else -1
            if not 0 < length <= MAX_HEADER:
                raise ValueError("its header has no length")
            header = json.loads(file.read(length))
        ends = [int(t["data_offsets"][1]) for n, t in header.items() if n != "__metadata__"]
    except (OSError, ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
        yield Fault("broken", path.name, f"weights: broken file {path.name}: {error}")
        return
    wanted = 8 + length + max(ends, default=0)
    if size < wanted:
        line = f"weights: incomplete file {path.name}: {size} of {wanted} bytes"
        yield Fault("cut-off", path.name, line)


def _differing(
    folder: Path, files: list[Path], tell: Callable[[str, int], None]
) -> Iterator[Fault]:
    known = _known(folder, files)
    for path in files:
        wanted = known.get(path.name)
        if wanted is None:
            continue
        try:
            found = _sha256(path, tell)
        except OSError as error:
            yield Fault("broken", path.name, f"weights: broken file {path.name}: {error}")
            continue
        if found != wanted:
            line = f"checksum mismatch: sha256 of {path.name} is {found[:12]}…, not {wanted[:12]}…"
            yield Fault("differs", path.name, line)


def _known(folder: Path, files: list[Path]) -> dict[str, str]:
    """The sha256 by file name: of a list beside them, or of the cache's own names."""
    known = {}
    for path in files:
        if path.is_symlink() and _BLOB.fullmatch(blob := path.resolve().name):
            known[path.name] = blob
    for name in SUMS:
        if (folder / name).is_file():
            for line in (folder / name).read_text("utf-8", "replace").splitlines():
                digest, _, file = line.strip().partition(" ")
                if _BLOB.fullmatch(digest):
                    known[file.strip().lstrip("*")] = digest
    return known


def _sha256(path: Path, tell: Callable[[str, int], None]) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            digest.update(block)
            tell(path.name, len(block))
    return digest.hexdigest()
