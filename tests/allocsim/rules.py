"""Sizes as the CUDA caching allocator rounds, pools and splits them (CUDACachingAllocator.cpp)."""

from __future__ import annotations

from dataclasses import dataclass

KIB = 1 << 10
MIB = 1 << 20
GIB = 1 << 30

MIN_BLOCK = 512
SMALL_SIZE = MIB
SMALL_BUFFER = 2 * MIB
LARGE_BUFFER = 20 * MIB
MIN_LARGE = 10 * MIB
ROUND_LARGE = 2 * MIB
UNLIMITED = 2**64 - 1
POWERS = tuple(str(1 << power) for power in range(16))


@dataclass(frozen=True, slots=True)
class Settings:
    """What PYTORCH_CUDA_ALLOC_CONF sets; sizes in bytes, `fraction` is the per-process limit."""

    expandable: bool = False
    max_split: int = UNLIMITED
    gc_threshold: float = 0.0
    roundup_divisions: int = 0
    fraction: float = 1.0

    @property
    def text(self) -> str:
        """The environment variable that would set this."""
        parts = ["expandable_segments:True"] if self.expandable else []
        if self.max_split != UNLIMITED:
            parts.append(f"max_split_size_mb:{self.max_split // MIB}")
        if self.gc_threshold:
            parts.append(f"garbage_collection_threshold:{self.gc_threshold}")
        if self.roundup_divisions:
            parts.append(f"roundup_power2_divisions:{self.roundup_divisions}")
        return ",".join(parts)


def ceil_to(size: int, unit: int) -> int:
    return -(-size // unit) * unit


def round_size(size: int, settings: Settings) -> int:
    """The bytes that a request takes: 512 B steps, or parts of the power of two above."""
    if size < MIN_BLOCK:
        return MIN_BLOCK
    divisions = settings.roundup_divisions
    if divisions > 1 and size > MIN_BLOCK * divisions:
        step = (1 << (size.bit_length() - 1)) // divisions
        return size if size & (size - 1) == 0 else ceil_to(size, step)
    return ceil_to(size, MIN_BLOCK)


def segment_size(size: int) -> int:
    """What is asked of the driver for a request of this rounded size."""
    if size <= SMALL_SIZE:
        return SMALL_BUFFER
    return LARGE_BUFFER if size < MIN_LARGE else ceil_to(size, ROUND_LARGE)


def splits(remaining: int, size: int, *, small: bool, settings: Settings) -> bool:
    """Whether a block with `remaining` bytes over is split after `size`."""
    if small or settings.expandable:
        return remaining >= MIN_BLOCK
    return size < settings.max_split and remaining > SMALL_SIZE
