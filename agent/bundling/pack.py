"""One tar.gz of named texts, bounded, for its owner alone, with an honest list of contents."""

from __future__ import annotations

import io
import os
import tarfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from gpudiag.probes.errors import GpudiagError, UsageError

SCHEMA_VERSION = 1
MANIFEST = "bundle.json"


@dataclass
class Pack:
    """What was gathered so far, at most `max_bytes` unpacked, and what is missing with why."""

    max_bytes: int
    files: dict[str, bytes] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)

    def put(self, name: str, content: bytes) -> None:
        """Take a file; one that no longer fits is missing."""
        room = self.max_bytes - sum(map(len, self.files.values()))
        if len(content) > room:
            self.missing[name] = f"its {len(content)} bytes exceed --max-size"
        else:
            self.files[name] = content

    def plain(self, name: str, value: Any) -> None:
        """The same with JSON's kinds of value."""
        self.put(name, msgspec.json.format(msgspec.json.encode(value)) + b"\n")

    def trying(self, name: str, gather: Callable[[], None]) -> None:
        """Have something gathered; where that fails, `name` is missing and the rest goes on."""
        try:
            gather()
        except (GpudiagError, OSError) as error:
            self.missing[name] = str(error)

    def write(self, path: Path, about: Mapping[str, Any]) -> None:
        """The file, whole or not at all, with `bundle.json` first; raises `UsageError`."""
        listed = {name: len(content) for name, content in self.files.items()}
        manifest = {"version": SCHEMA_VERSION, **about, "files": listed, "missing": self.missing}
        whole = msgspec.json.format(msgspec.json.encode(manifest)) + b"\n"
        fresh = path.with_name(f"{path.name}.new")
        try:
            descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with (
                os.fdopen(descriptor, "wb") as file,
                tarfile.open(fileobj=file, mode="w:gz") as archive,
            ):
                folder = path.name.removesuffix(".tar.gz")
                for name, content in {MANIFEST: whole, **self.files}.items():
                    _add(archive, f"{folder}/{name}", content)
            fresh.replace(path)
        except OSError as error:
            fresh.unlink(missing_ok=True)
            raise UsageError(f"cannot write {path}: {error}") from error


def _add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size, member.mode, member.mtime = len(content), 0o600, int(time.time())
    archive.addfile(member, io.BytesIO(content))
