"""The allocator's own numbers at the step boundary, where memory is at its floor."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from gpudiag.probes.torch.features import Features
from gpudiag.probes.torch.meter import Value

BYTES = ("allocated", "reserved", "active", "inactive_split", "requested")
COUNTS = {
    "gpudiag_torch_alloc_retries_total": "num_alloc_retries",
    "gpudiag_torch_ooms_total": "num_ooms",
    "gpudiag_torch_device_allocs_total": "num_device_alloc",
}


class Memory:
    """A meter of the CUDA caching allocator; gives nothing where this process has none.

    One nested dict costs about 6 microseconds; torch's flat one 150. The part of the device that
    this process uses outside the allocator is for the agent to tell: only the driver knows which
    process uses what.
    """

    def __init__(self, torch: Any, features: Features) -> None:
        self._cuda = torch.cuda
        self._features = features

    def take(self, steps: int) -> list[Value]:  # noqa: ARG002 - a state, not a rate
        """Bytes now and at their peak, retries, OOMs, private pools, pinned host memory."""
        if not self._cuda.is_initialized():
            return []
        values = of_device(self._features.memory_stats() or {})
        return [
            *(value for value in values if value[0] not in self._untrue()),
            *of_host(self._features.pinned_stats() or {}),
        ]

    def _untrue(self) -> set[str]:
        """Numbers that the allocator keeps at 0 under this configuration."""
        # https://github.com/pytorch/pytorch CUDACachingAllocator.cpp: inactive_split is updated
        # only where `!block->expandable_segment_`.
        told = os.environ.get("PYTORCH_CUDA_ALLOC_CONF", os.environ.get("PYTORCH_ALLOC_CONF", ""))
        if "cudaMallocAsync" in told:
            return {"gpudiag_torch_inactive_split_bytes", "gpudiag_torch_requested_bytes", *COUNTS}
        return (
            {"gpudiag_torch_inactive_split_bytes"} if "expandable_segments:True" in told else set()
        )


def of_device(stats: Mapping[str, Any]) -> list[Value]:
    """The series in `memory_stats_as_nested_dict`; a key that this torch lacks is left out."""
    values: list[Value] = []
    for name in BYTES:
        found = stats.get(f"{name}_bytes", {}).get("all", {})
        if "current" in found:
            values.append((f"gpudiag_torch_{name}_bytes", {}, float(found["current"])))
        if "peak" in found and name in {"allocated", "reserved"}:
            values.append((f"gpudiag_torch_{name}_peak_bytes", {}, float(found["peak"])))
    for metric, key in COUNTS.items():
        if key in stats:
            values.append((metric, {}, float(stats[key])))
    pools = stats.get("reserved_bytes_by_private_pools")
    if pools is not None:
        used = sum(pool.get("all", {}).get("current", 0) for pool in pools.values())
        values.append(("gpudiag_torch_private_pool_bytes", {}, float(used)))
    return values


def of_host(stats: Mapping[str, Any]) -> list[Value]:
    """Pinned memory in `host_memory_stats_as_nested_dict`."""
    current = stats.get("allocated_bytes", {}).get("current")
    return [] if current is None else [("gpudiag_torch_pinned_bytes", {}, float(current))]
