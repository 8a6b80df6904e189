"""The text of an out-of-memory error as torch 2.13 words it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.allocsim.blocks import DEFAULT_POOL
from tests.allocsim.rules import GIB, KIB, MIB

if TYPE_CHECKING:
    from tests.allocsim.allocator import Allocator

_HINT = (
    "If reserved but unallocated memory is large try setting "
    "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.  See documentation "
    "for Memory Management  (https://docs.pytorch.org/docs/stable/notes/cuda.html"
    "#optimizing-memory-usage-with-pytorch-cuda-alloc-conf)"
)


def format_size(size: int) -> str:
    """As c10's `format_size`: two decimals, and no unit above GiB."""
    if size <= KIB:
        return f"{size} bytes"
    for unit, name in ((MIB, "KiB"), (GIB, "MiB")):
        if size <= unit:
            return f"{size / (unit // KIB):.2f} {name}"
    return f"{size / GIB:.2f} GiB"


def message(owner: Allocator, size: int) -> str:
    """What the error says for a rounded request of `size` bytes."""
    device, counts = owner.device, owner.counts
    own = device.context + device.outside + counts["reserved"]
    stranded = sum(
        block.size
        for name, pools in owner.pools.items()
        if name != DEFAULT_POOL
        for pool in pools
        for block in pool.blocks()
    )
    allocated = counts["allocated"] + stranded
    said = [
        f"CUDA out of memory. Tried to allocate {format_size(size)}.",
        f"GPU {owner.index} has a total capacity of {format_size(device.capacity)} of which"
        f" {format_size(owner.device_free)} is free.",
        *(f"Process {pid} has {format_size(s)} memory in use." for pid, s in device.others.items()),
        f"Including non-PyTorch memory, this process has {format_size(own)} memory in use.",
        *([f"{format_size(owner.allowed)} allowed;"] if owner.settings.fraction < 1.0 else ()),
        f"Of the allocated memory {format_size(allocated)} is allocated by PyTorch,",
        *(
            [f"with {format_size(stranded)} allocated in private pools (e.g., CUDA Graphs),"]
            if stranded
            else ()
        ),
        f"and {format_size(counts['reserved'] - allocated)} is reserved by PyTorch but"
        " unallocated.",
        _HINT,
    ]
    return " ".join(said)
