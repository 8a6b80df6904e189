"""Copies generated files out of the package, with the reader's own addresses in them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path

from gpudiag.probes.errors import UsageError

_ADDRESS = re.compile(r"https?://[A-Za-z0-9.\[\]:_~%/-]+")


def export(
    package: str,
    suffix: str | tuple[str, ...],
    folder: Path,
    addresses: Mapping[str, str] | None = None,
) -> list[Path]:
    """Copy the data files of `package` into `folder`; raises `UsageError` where that is refused.

    `addresses` are put in place of those that they are given for.
    """
    instead = {old: _address(new) for old, new in (addresses or {}).items()}
    written: list[Path] = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for source in sorted(files(package).iterdir(), key=lambda file: file.name):
            if source.name.endswith(suffix):
                text = source.read_text("utf-8")
                for old, new in instead.items():
                    text = text.replace(old, new)
                target = folder / source.name
                target.write_text(text, "utf-8")
                written.append(target)
    except OSError as error:
        raise UsageError(f"cannot write into {folder}: {error}") from error
    return written


def _address(given: str) -> str:
    """Without its last slash; what YAML, JSON or a link would read otherwise is refused."""
    if not _ADDRESS.fullmatch(given):
        raise UsageError(f"{given!r} is no address: give http:// or https:// and a host, no query")
    return given.rstrip("/")
