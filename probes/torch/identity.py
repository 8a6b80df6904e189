"""Who this process is: job, rank, GPU and framework, as the environment and torch tell."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ZERO_LAYOUT = ("dp", "tp", "pp", "ep")


def rank_of(environment: Mapping[str, str], distributed: Any) -> tuple[int, int, int]:
    """Rank, local rank and world size; a process on its own is rank 0 of 1."""
    rank = _number(environment, "RANK", 0)
    world = _number(environment, "WORLD_SIZE", 1)
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        rank, world = distributed.get_rank(), distributed.get_world_size()
    return rank, _number(environment, "LOCAL_RANK", rank), world


def job_of(environment: Mapping[str, str], program: str) -> str:
    """The job's name: `GPUDIAG_JOB`, the scheduler's, torchrun's, else the script's."""
    for name in ("GPUDIAG_JOB", "SLURM_JOB_NAME", "TORCHELASTIC_RUN_ID"):
        told = environment.get(name, "")
        if told not in {"", "none"}:
            return told
    return "python" if program.startswith("-") else Path(program).stem or "python"


def layout_of(told: str | None, degrees: Mapping[str, int], world: int) -> str:
    """`dp=4,tp=1,pp=1,ep=1`: as told, else by the device mesh, else all ranks data parallel."""
    if told:
        return told
    found = dict(degrees)
    others = 1
    for name, size in found.items():
        others *= size if name != "dp" else 1
    found.setdefault("dp", max(1, world // others))
    first = [f"{name}={found.pop(name, 1)}" for name in ZERO_LAYOUT]
    return ",".join([*first, *(f"{name}={size}" for name, size in found.items())])


def uuid_of(torch: Any) -> str | None:
    """The UUID of the current GPU; None where this process has none, or not yet."""
    if not torch.cuda.is_available() or not torch.cuda.is_initialized():
        return None
    found = getattr(torch.cuda.get_device_properties(torch.cuda.current_device()), "uuid", None)
    return None if found is None else f"GPU-{str(found).removeprefix('GPU-')}"


def hello(
    torch: Any,
    job: str | None,
    layout: str | None,
    degrees: Mapping[str, int],
    config: Mapping[str, str],
    features: Mapping[str, str],
) -> dict[str, Any]:
    """The first packet of a connection."""
    rank, local_rank, world = rank_of(os.environ, getattr(torch, "distributed", None))
    return {
        "kind": "hello",
        "version": 1,
        "pid": os.getpid(),
        "job": job or job_of(os.environ, sys.argv[0] if sys.argv else ""),
        "rank": rank,
        "local_rank": local_rank,
        "world_size": world,
        "uuid": uuid_of(torch),
        "framework": f"torch {torch.__version__}",
        "layout": layout_of(layout, degrees, world),
        "config": dict(config),
        "host_pid_ns": _pid_namespace(),
        "features": dict(features),
    }


def _pid_namespace() -> int | None:
    """Inode of the pid namespace: two processes with the same one see the same pids."""
    try:
        return os.stat("/proc/self/ns/pid").st_ino
    except OSError:
        return None


def _number(environment: Mapping[str, str], name: str, otherwise: int) -> int:
    text = environment.get(name, "")
    return int(text) if text.isdigit() else otherwise
