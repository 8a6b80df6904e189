"""The child that reads one snapshot: path and limit in, the digest on stdout, stages on stderr."""

from __future__ import annotations

import gc
import os
import resource
import sys
from pathlib import Path

import msgspec

from gpudiag.agent.analysis.memory.digest import REFUSED
from gpudiag.agent.analysis.memory.digesting import digest
from gpudiag.agent.analysis.snapshots import opened, shaped
from gpudiag.probes.errors import UsageError

BASE = 2**30
GROWTH = 16
"""Bytes of memory for each byte of the file; real snapshots take four, gzip packs them tenfold."""

PACKED = 12


def main() -> None:
    """Read the file named by the first argument, at most as large as the second says."""
    path, most = Path(sys.argv[1]), int(sys.argv[2])
    gc.disable()
    try:
        _bound_memory(path, most)
        _tell("loading")
        memory = shaped(opened(path, most), path.name)
        _tell("following the trace")
        packed = msgspec.msgpack.encode(digest(memory, path.name))
    except UsageError as error:
        _tell(str(error))
        os._exit(REFUSED)
    except MemoryError:
        _tell(f"{path.name} takes more memory than its size allows")
        os._exit(REFUSED)
    sys.stdout.buffer.write(packed)
    sys.stdout.buffer.flush()
    # Taking millions of objects apart one by one would take longer than following the trace.
    os._exit(0)


def _bound_memory(path: Path, most: int) -> None:
    try:
        size = path.stat().st_size
    except OSError:
        return
    packed = path.suffix == ".gz"
    limit = BASE + GROWTH * min(size * (PACKED if packed else 1), most)
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    if hard == resource.RLIM_INFINITY or limit < hard:
        resource.setrlimit(resource.RLIMIT_AS, (limit, hard))


def _tell(text: str) -> None:
    sys.stderr.write(f"gpudiag: {text}\n")
    sys.stderr.flush()


main()
