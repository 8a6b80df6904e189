"""Builds the simulated driver: `libnvidia-ml.so.1` from the C files in `src`, once per content."""

from __future__ import annotations

import hashlib
import os
import subprocess
import tempfile
from pathlib import Path

SOURCES = Path(__file__).parent / "src"


def build(cache: Path | None = None, hide: tuple[str, ...] = ()) -> Path:
    """The folder that holds the library; put it in `LD_LIBRARY_PATH`.

    `hide` leaves symbols out, as an old driver does. Built again only when a source changed.
    """
    folder = (cache or Path(tempfile.gettempdir())) / f"gpudiag-simdriver-{_digest(hide)}"
    if not (folder / "libnvidia-ml.so.1").exists():
        folder.mkdir(parents=True, exist_ok=True)
        _compile(folder, hide)
    return folder


def _digest(hide: tuple[str, ...]) -> str:
    content = b"".join(path.read_bytes() for path in sorted(SOURCES.iterdir()))
    return hashlib.sha256(content + repr((hide, os.getuid())).encode()).hexdigest()[:16]


def _compile(folder: Path, hide: tuple[str, ...]) -> None:
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        script, library = Path(scratch, "symbols"), Path(scratch, "lib.so")
        hidden = f"local: {'; '.join(hide)};" if hide else ""
        script.write_text(f"{{ global: *; {hidden} }};")
        flags = ["-shared", "-fPIC", "-O2", "-Wall", "-Wextra", "-Werror"]
        flags += [f"-Wl,--version-script={script}", "-o", str(library)]
        subprocess.run(["cc", *flags, *sorted(SOURCES.glob("*.c")), "-lpthread"], check=True)
        # Renamed into place: tests that run side by side never load half a library.
        library.rename(folder / "libnvidia-ml.so.1")
