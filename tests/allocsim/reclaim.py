"""How the allocator gives memory back: all that is free, the oversize, and the unused for long."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.allocsim import mapping
from tests.allocsim.blocks import DEFAULT_POOL, Block, Pool
from tests.allocsim.rules import UNLIMITED

if TYPE_CHECKING:
    from tests.allocsim.allocator import Allocator


def release_all(owner: Allocator) -> None:
    """Every whole free segment of the default pool and of pools whose graphs are gone."""
    owner.synchronize()
    for name, pools in owner.pools.items():
        if name == DEFAULT_POOL or name in owner.freeable:
            for pool in pools:
                for block in pool.blocks():
                    _release(owner, block)


def release_oversize(owner: Allocator, pool: Pool, stream: int, size: int) -> bool:
    """With a split limit: give back oversize blocks that make room; whether any was."""
    limit = owner.settings.max_split
    if limit == UNLIMITED:
        return False
    wanted = max(limit, size)
    fitting = next(pool.fitting(stream, wanted), None)
    if fitting:
        return _release(owner, fitting) > 0
    released = 0
    for block in sorted(pool.blocks(), key=lambda b: -b.size):
        if released >= wanted or block.size < limit:
            break
        if block.stream == stream:
            released += _release(owner, block)
    return released >= wanted


def collect(owner: Allocator) -> None:
    """Above the threshold: give back whole blocks that were looked past longest."""
    target = owner.counts["reserved"] - int(owner.settings.gc_threshold * owner.allowed)
    pool = owner.pools[DEFAULT_POOL][1]
    while target > 0:
        whole = [block for block in pool.blocks() if block.whole and not block.region]
        if not whole:
            return
        ages = {id(block): pool.calls - block.age for block in whole}
        mean = sum(ages.values()) / len(ages)
        for block in whole:
            if target > 0 and ages[id(block)] >= mean:
                target -= _release(owner, block)


def _release(owner: Allocator, block: Block) -> int:
    if block.region:
        return mapping.unmap(owner, block)
    if not block.whole:
        return 0
    block.pool.remove(block)
    del owner.heads[block.address]
    owner.counts["reserved"] -= block.size
    owner.counts["device_free"] += 1
    owner.event("segment_free", block.address, block.size, block, ())
    return block.size
