"""Expandable segments: one range of addresses per stream and pool, memory mapped as needed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.allocsim.blocks import Block, Pool, Region, cut, merge
from tests.allocsim.rules import LARGE_BUFFER, SMALL_BUFFER, ceil_to
from tests.allocsim.stacks import Stack

if TYPE_CHECKING:
    from tests.allocsim.allocator import Allocator


def least_expandable(pool: Pool, first: Block, size: int) -> Block:
    """Best fit by what each block could grow to, so that the one at the open end comes last."""
    best = first
    for block in pool.fitting(first.stream, size):
        if block is not best and _could_be(block) >= _could_be(best):
            break
        best = block
    return best


def _could_be(block: Block) -> int:
    return block.size + (block.next.size if block.next and not block.next.mapped else 0)


def grow(owner: Allocator, pool: Pool, stream: int, size: int, stack: Stack) -> Block | None:
    """A mapped free block of at least `size`, in no pool; None where memory does not suffice."""
    block = _candidate(owner, pool, stream, size)
    if not block.mapped and not _map(owner, block, min(block.size, size), stack):
        return None
    while block.size < size:
        following = block.next
        missing = size - block.size
        if following is None or not _map(owner, following, min(following.size, missing), stack):
            return None
        block = following
    pool.remove(block)
    return block


def _candidate(owner: Allocator, pool: Pool, stream: int, size: int) -> Block:
    for block in sorted(pool.unmapped.values(), key=lambda b: b.address):
        if block.stream != stream:
            continue
        before = block.previous
        start = before if before and not before.active else block
        if _room(start, size):
            return start
    granule = SMALL_BUFFER if pool.small else LARGE_BUFFER
    total = ceil_to(owner.device.capacity * 9 // 8, granule)
    region = Region(owner.reserve(total, granule), total, granule)
    block = Block(region.address, total, stream, pool, region, mapped=False)
    pool.unmapped[block.address] = block
    owner.heads[block.address] = block
    return block


def _room(block: Block | None, size: int) -> bool:
    found = 0
    while found < size and block and not block.active:
        found += block.size
        block = block.next
    return found >= size


def _map(owner: Allocator, block: Block, size: int, stack: Stack) -> bool:
    region = block.region
    assert region is not None
    mapped = min(ceil_to(size, region.granule), block.size)
    if not owner.fits(mapped):
        return False
    del block.pool.unmapped[block.address]
    if block.size > mapped:
        rest = cut(block, mapped, mapped=False)
        rest.pool.unmapped[rest.address] = rest
    block.mapped = True
    block.segment_stack = owner.recorder.kept(stack)
    owner.counts["reserved"] += mapped
    owner.counts["device_alloc"] += 1
    owner.event("segment_map", block.address, mapped, block, stack)
    _join(owner, block)
    block.pool.insert(block)
    return True


def unmap(owner: Allocator, block: Block) -> int:
    """Give back the whole granules inside a free block; the bytes that were."""
    region = block.region
    assert region is not None
    start = region.address + ceil_to(block.address - region.address, region.granule)
    end = block.address + block.size - region.address
    end = region.address + end // region.granule * region.granule
    if end <= start:
        return 0
    block.pool.remove(block)
    if start > block.address:
        behind = cut(block, start - block.address)
        block.pool.insert(block)
        block = behind
    if block.size > end - start:
        rest = cut(block, end - start)
        rest.pool.insert(rest)
    block.mapped = False
    size = block.size
    owner.counts["reserved"] -= size
    owner.counts["device_free"] += 1
    owner.event("segment_unmap", block.address, size, block, ())
    _join(owner, block)
    block.pool.unmapped[block.address] = block
    return size


def _join(owner: Allocator, block: Block) -> None:
    if merge(block, block.previous) and block.address in owner.heads:
        owner.heads[block.address] = block
    merge(block, block.next)
