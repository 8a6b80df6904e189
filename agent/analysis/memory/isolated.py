"""Digest a file in a child process, so that no file can crash, fill or hang the reader.

A hostile pickle cannot run code here either way; in the child it cannot overflow the stack or take
all memory of anybody else, and the memory of a large snapshot is gone as soon as it was read.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import msgspec

from gpudiag.agent.analysis.memory.digest import REFUSED, Digest
from gpudiag.agent.analysis.snapshots import MAX_BYTES
from gpudiag.probes.errors import GpudiagError, UsageError

_TOLD = "gpudiag: "


def digest_file(
    path: Path, *, most: int = MAX_BYTES, tell: Callable[[str], None] = lambda _: None
) -> Digest:
    """The digest of a snapshot file; raises `UsageError` with one line where it is none.

    `most` is the largest size in bytes, unpacked; `tell` hears what is being done, for people.
    """
    command = [sys.executable, "-I", "-m", "gpudiag.agent.analysis.memory", str(path), str(most)]
    said = ""
    # A file, not a second pipe: nobody would empty it while the stages are listened to.
    with (
        tempfile.TemporaryFile() as answer,
        subprocess.Popen(command, stdout=answer, stderr=subprocess.PIPE) as child,
    ):
        for line in child.stderr or ():
            said = line.decode("utf-8", "replace").rstrip()
            tell(said.removeprefix(_TOLD))
        child.wait()
        answer.seek(0)
        packed = answer.read()
    if child.returncode == 0:
        return msgspec.msgpack.decode(packed, type=Digest)
    if child.returncode == REFUSED:
        raise UsageError(said.removeprefix(_TOLD))
    if child.returncode < 0:
        raise UsageError(
            f"{path.name} cannot be read: it ended its reader with signal {-child.returncode},"
            " as files do that are damaged, hostile, or too large for this machine's memory"
        )
    raise GpudiagError(f"the reader of {path.name} failed ({said}): please report it with the file")
