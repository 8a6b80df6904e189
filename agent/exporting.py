"""Copies generated files out of the package."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from gpudiag.probes.errors import UsageError


def export(package: str, suffix: str | tuple[str, ...], folder: Path) -> list[Path]:
    """Copy the data files of `package` into `folder`; raises `UsageError` where that is refused."""
    written: list[Path] = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for source in sorted(files(package).iterdir(), key=lambda file: file.name):
            if source.name.endswith(suffix):
                target = folder / source.name
                target.write_bytes(source.read_bytes())
                written.append(target)
    except OSError as error:
        raise UsageError(f"cannot write into {folder}: {error}") from error
    return written
