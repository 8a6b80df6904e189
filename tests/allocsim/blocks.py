"""Blocks, and the pools that hold the free ones by stream, size and address."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.allocsim.stacks import Stack

PoolId = tuple[int, int]
DEFAULT_POOL: PoolId = (0, 0)


@dataclass(slots=True, eq=False)
class Region:
    """Addresses reserved for an expandable segment; physical memory comes in `granule` steps."""

    address: int
    size: int
    granule: int


@dataclass(slots=True, eq=False)
class Block:
    address: int
    size: int
    stream: int
    pool: Pool
    region: Region | None = None
    mapped: bool = True
    allocated: bool = False
    pending: bool = False
    requested: int = 0
    age: int = 0
    stack: Stack = ()
    segment_stack: Stack = ()
    previous: Block | None = None
    next: Block | None = None

    @property
    def active(self) -> bool:
        return self.allocated or self.pending

    @property
    def whole(self) -> bool:
        return self.previous is None and self.next is None


@dataclass(slots=True, eq=False)
class Pool:
    """Free blocks of one size class; `calls` counts look-ups, the clock of garbage collection."""

    small: bool
    id: PoolId = DEFAULT_POOL
    calls: int = 0
    free: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    at: dict[int, Block] = field(default_factory=dict)
    unmapped: dict[int, Block] = field(default_factory=dict)

    def insert(self, block: Block) -> None:
        insort(self.free.setdefault(block.stream, []), (block.size, block.address))
        self.at[block.address] = block
        block.age = self.calls

    def remove(self, block: Block) -> None:
        row = self.free[block.stream]
        del row[bisect_left(row, (block.size, block.address))]
        del self.at[block.address]

    def fitting(self, stream: int, size: int) -> Iterator[Block]:
        """Free blocks of this stream of at least this size, the smallest first."""
        row = self.free.get(stream, [])
        for index in range(bisect_left(row, (size, 0)), len(row)):
            yield self.at[row[index][1]]

    def blocks(self) -> list[Block]:
        return list(self.at.values())


def cut(block: Block, size: int, *, mapped: bool = True) -> Block:
    """Split off what lies behind `size`; the rest is returned, linked and in no pool."""
    rest = Block(
        block.address + size,
        block.size - size,
        block.stream,
        block.pool,
        block.region,
        mapped,
        segment_stack=block.segment_stack,
        previous=block,
        next=block.next,
    )
    if block.next:
        block.next.previous = rest
    block.next = rest
    block.size = size
    return rest


def merge(block: Block, other: Block | None) -> bool:
    """Take in a free neighbour; both must be mapped, or neither."""
    if other is None or other.active or other.mapped != block.mapped:
        return False
    if other.mapped:
        other.pool.remove(other)
    else:
        del other.pool.unmapped[other.address]
    if other is block.previous:
        block.address = other.address
        block.previous = other.previous
        if block.previous:
            block.previous.next = block
    else:
        block.next = other.next
        if block.next:
            block.next.previous = block
    block.size += other.size
    return True
