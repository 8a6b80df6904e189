from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from gpudiag.probes.torch.features import Features
from gpudiag.probes.torch.memory import Memory, of_device, of_host

STAT = {"current": 5, "peak": 9, "allocated": 20, "freed": 15}
STATS: dict[str, Any] = {
    **{
        f"{name}_bytes": {"all": STAT, "large_pool": STAT, "small_pool": STAT}
        for name in ("allocated", "reserved", "active", "inactive_split", "requested")
    },
    "num_alloc_retries": 2, "num_ooms": 1, "num_device_alloc": 30,
}  # fmt: skip


def named(values: list[Any]) -> dict[str, float]:
    return {name.removeprefix("gpudiag_torch_"): value for name, _, value in values}


def test_the_allocators_numbers_become_series() -> None:
    assert named(of_device(STATS)) == {
        "allocated_bytes": 5, "allocated_peak_bytes": 9, "reserved_bytes": 5,
        "reserved_peak_bytes": 9, "active_bytes": 5, "inactive_split_bytes": 5,
        "requested_bytes": 5, "alloc_retries_total": 2, "ooms_total": 1, "device_allocs_total": 30,
    }  # fmt: skip


def test_private_pools_add_up() -> None:
    pools = {(0, 1): {"all": {"current": 7}}, (0, 2): {"all": {"current": 8}}}
    found = named(of_device({**STATS, "reserved_bytes_by_private_pools": pools}))
    assert found["private_pool_bytes"] == 15


def test_keys_that_an_older_torch_lacks_are_absent() -> None:
    older = {key: value for key, value in STATS.items() if key != "num_device_alloc"}
    found = named(of_device(older))
    assert "device_allocs_total" not in found
    assert "private_pool_bytes" not in found


def test_pinned_memory_is_of_the_host_allocator() -> None:
    assert named(of_host({"allocated_bytes": {"current": 4096}})) == {"pinned_bytes": 4096}
    assert of_host({}) == []


def test_without_cuda_there_is_nothing() -> None:
    assert Memory(torch, Features(torch)).take(10) == []


def test_what_expandable_segments_never_count_is_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True")
    cuda = SimpleNamespace(is_initialized=lambda: True)
    features: Any = SimpleNamespace(memory_stats=lambda: STATS, pinned_stats=lambda: None)
    found = named(Memory(SimpleNamespace(cuda=cuda), features).take(1))
    assert "inactive_split_bytes" not in found
    assert found["allocated_bytes"] == 5
