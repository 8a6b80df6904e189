"""A job that runs, looked at closely by its agent."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

from gpudiag.agent import asking
from gpudiag.probes.errors import GpudiagError

PATIENCE = 1200.0
"""Three looks with a minute between, each of which waits for the end of a step, and the report."""


def captured(
    url: str,
    job: str,
    rank: int,
    token_file: Path | None,
    wait: Callable[[float], None] = time.sleep,
) -> dict[str, Any]:
    """What the agent at `url` found in the rank; raises `GpudiagError` where it never tells."""
    headers = asking.bearer(token_file)
    before = _newest(url, job, rank).get("at", 0.0)
    path = f"/api/v1/captures/{quote(job, safe='')}/{rank}"
    asking.change(url, path, headers)
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        found = _newest(url, job, rank)
        if found.get("at", 0.0) > before:
            return found
        wait(2.0)
    raise GpudiagError(f"the agent was asked and told nothing of rank {rank} of {job}: see its log")


def _newest(url: str, job: str, rank: int) -> dict[str, Any]:
    mine = [c for c in asking.listed(url, "captures") if (c["job"], c["rank"]) == (job, rank)]
    return max(mine, key=lambda c: float(c["at"]), default={})
