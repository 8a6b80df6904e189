"""Free memory by pool: what empty_cache gives back, what live blocks pin, what is stranded.

The allocator never mixes streams, private pools, or small and large requests; only memory of the
same pool can serve a request. Counters of torch do not see expandable segments: this does.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from gpudiag.agent.analysis.snapshots.shape import DEFAULT_POOL, Segment

MIB = 2**20
SMALL_REQUEST = MIB
"""Bytes; requests up to here live in the small pool (c10/core/AllocatorConfig.h)."""
SMALL_SEGMENT, LARGE_SEGMENT = 2 * MIB, 20 * MIB
MIDDLE_REQUEST = 10 * MIB


class Pool(msgspec.Struct, frozen=True):
    """One pool; bytes. `free` is the sum of `releasable` (by empty_cache) and what stays.

    `largest` is the largest free block, `internal` what rounding wastes in live blocks, `thin`
    the free bytes in segments of which less than a fifth is live.
    """

    device: int
    stream: int
    id: tuple[int, int]
    small: bool
    expandable: bool
    segments: int
    reserved: int
    live: int
    pending: int
    free: int
    releasable: int
    largest: int
    internal: int
    thin: int

    @property
    def private(self) -> bool:
        """Whether a CUDA graph or a MemPool owns it; then empty_cache gives nothing back."""
        return self.id != DEFAULT_POOL

    @property
    def held(self) -> int:
        """Free bytes that empty_cache cannot give back."""
        return self.free - self.releasable


THIN = 0.2


def pools(segments: Iterable[Segment], largest_split: int = -1) -> list[Pool]:
    """The pools of a snapshot, the one with most reserved memory first.

    `largest_split` is the setting max_split_size: free blocks from there on serve no smaller
    request, so they do not count as `largest`. -1 is without limit.
    """
    grouped: dict[tuple[int, int, tuple[int, int], bool, bool], list[Segment]] = {}
    for segment in segments:
        s = segment
        key = (s.device, s.stream, s.pool, s.small, s.expandable)
        grouped.setdefault(key, []).append(segment)
    found = [_pool(key, of, largest_split) for key, of in grouped.items()]
    return sorted(found, key=lambda pool: -pool.reserved)


def _pool(
    key: tuple[int, int, tuple[int, int], bool, bool], of: Sequence[Segment], limit: int
) -> Pool:
    live = pending = free = given = internal = thin = largest = 0
    for segment in of:
        used = 0
        for block in segment.blocks:
            if block.live or block.pending:
                used += block.size
                pending += block.size * block.pending
                internal += block.size - block.requested
            elif limit < 0 or block.size < limit:
                largest = max(largest, block.size)
        empty = sum(b.size for b in segment.blocks if not (b.live or b.pending))
        live += used
        free += empty
        given += releasable(segment)
        thin += empty if 0 < used < THIN * segment.size else 0
    device, stream, pool, small, expandable = key
    return Pool(
        device, stream, pool, small, expandable, len(of), sum(s.size for s in of),
        live - pending, pending, free, given, largest, internal, thin,
    )  # fmt: skip


def releasable(segment: Segment) -> int:
    """Bytes that empty_cache gives back to the device of this segment.

    Whole free segments; of an expandable one each free granule (2 MiB in the small pool, 20 MiB
    in the large one) that lies whole inside a free block. Nothing of a private pool in use.
    """
    if segment.pool != DEFAULT_POOL:
        return 0
    free = [b for b in segment.blocks if not (b.live or b.pending)]
    if not segment.expandable:
        return segment.size if free and len(free) == len(segment.blocks) else 0
    granule = SMALL_SEGMENT if segment.small else LARGE_SEGMENT
    total = 0
    for block in free:
        start = block.address - segment.address
        first, last = -(-start // granule), (start + block.size) // granule
        total += max(0, last - first) * granule
    return total


def segment_for(size: int, *, expandable: bool) -> int:
    """Bytes that the allocator asks the device for when no free block serves a request."""
    if size <= SMALL_REQUEST:
        return SMALL_SEGMENT
    if expandable:
        return -(-size // LARGE_SEGMENT) * LARGE_SEGMENT
    return LARGE_SEGMENT if size < MIDDLE_REQUEST else -(-size // SMALL_SEGMENT) * SMALL_SEGMENT
