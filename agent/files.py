"""Files that a person names, opened so that none can hang the command or fill its memory."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO

from gpudiag.probes.errors import UsageError

MAX_TEXT = 16 * 1024**2
"""Bytes of a text that is read whole: far beyond what anyone writes by hand."""


def opened(path: Path) -> BinaryIO:
    """The regular file at `path`; raises `UsageError` for one of another kind, and `OSError`."""
    # Without O_NONBLOCK the mere opening of a pipe waits for its writer.
    file = os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb")
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise UsageError(f"{path} is a pipe or a device: write what it gives to a file")
    return file


def text(path: Path, what: str = "") -> str:
    """The UTF-8 text of the file at `path`; `what` it is goes into the `UsageError` it raises."""
    name = f"{what} {path}".lstrip()
    try:
        with opened(path) as file:
            # Only /proc/kmsg and its like give nothing yet, rather than an end.
            raw = file.read(MAX_TEXT + 1) or b""
        if len(raw) > MAX_TEXT:
            raise UsageError(f"{name} is too long: {MAX_TEXT} bytes are the most")
        return raw.decode()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read {name}: {error}") from error


def secret(value: str, key: str) -> str:
    """`value`, or what stands in the file that `@/path` names; `key` says who named it."""
    if not value.startswith("@"):
        return value
    return text(Path(value[1:]), f"what {key} names,").strip()


def replace(path: Path, content: bytes) -> None:
    """Put `content` in the place of the file, whole or not at all, for its owner alone.

    On the disk when it returns; raises `OSError` where that is refused.
    """
    fresh = path.with_suffix(".new")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        os.write(descriptor, content)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    fresh.replace(path)


def secrets(values: Mapping[str, str], key: str) -> dict[str, str]:
    """Each value as `secret` reads it: headers, of which some are keys."""
    return {name: secret(value, key) for name, value in values.items()}
