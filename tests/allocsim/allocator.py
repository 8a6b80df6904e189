"""One device's caching allocator: requests, frees, splits, streams, private pools, and OOM."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from tests.allocsim import mapping, reclaim
from tests.allocsim.blocks import DEFAULT_POOL, Block, Pool, PoolId, cut, merge
from tests.allocsim.oom import message
from tests.allocsim.recorder import Clock, Recorder
from tests.allocsim.rules import (
    GIB,
    LARGE_BUFFER,
    SMALL_SIZE,
    UNLIMITED,
    Settings,
    round_size,
    splits,
)
from tests.allocsim.rules import segment_size as size_of_segment
from tests.allocsim.stacks import Stack


class OutOfMemory(RuntimeError):
    """The text of torch.OutOfMemoryError."""


@dataclass
class Device:
    """A GPU's memory in bytes: `context` is the process's own, `outside` what e.g. NCCL holds."""

    capacity: int = 80 * GIB
    context: int = 500 << 20
    outside: int = 0
    others: dict[int, int] = field(default_factory=dict)

    @property
    def taken(self) -> int:
        """All but what the allocator has reserved."""
        return self.context + self.outside + sum(self.others.values())


@dataclass
class Allocator:
    """`counts` are the statistics: allocated, reserved, active, requested bytes, retries, ooms."""

    device: Device = field(default_factory=Device)
    settings: Settings = field(default_factory=Settings)
    recorder: Recorder = field(default_factory=lambda: Recorder(Clock()))
    index: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    pools: dict[PoolId, tuple[Pool, Pool]] = field(default_factory=dict)
    heads: dict[int, Block] = field(default_factory=dict)
    capturing: PoolId = DEFAULT_POOL
    freeable: set[PoolId] = field(default_factory=set)
    pending: list[Block] = field(default_factory=list)
    next_address: int = 0x7F10_0000_0000

    def __post_init__(self) -> None:
        self.next_address += self.index << 40
        self.pool_of(DEFAULT_POOL)

    def pool_of(self, pool: PoolId) -> tuple[Pool, Pool]:
        """The small and the large pool of this id."""
        return self.pools.setdefault(pool, (Pool(True, pool), Pool(False, pool)))

    @contextmanager
    def private(self, pool: PoolId) -> Iterator[None]:
        """Requests inside go to this private pool, as in a graph's capture or `use_mem_pool`."""
        before, self.capturing = self.capturing, pool
        try:
            yield
        finally:
            self.capturing = before

    @property
    def allowed(self) -> int:
        return int(self.device.capacity * self.settings.fraction)

    @property
    def device_free(self) -> int:
        return max(self.device.capacity - self.device.taken - self.counts["reserved"], 0)

    @property
    def device_used(self) -> int:
        return self.device.capacity - self.device_free

    def malloc(self, requested: int, stack: Stack = (), stream: int = 0) -> Block:
        """A block for this many bytes; raises OutOfMemory after all that torch tries first."""
        size = round_size(requested, self.settings)
        small, large = self.pool_of(self.capturing)
        pool = small if size <= SMALL_SIZE else large
        block = self._cached(pool, stream, size) or self._fresh(pool, stream, size, stack)
        if block is None:
            raise self._out_of_memory(size, stream, stack)
        if splits(block.size - size, size, small=pool.small, settings=self.settings):
            pool.insert(cut(block, size))
        block.allocated, block.requested = True, requested
        block.stack = self.recorder.kept(stack)
        self._count(block, +1, "allocated", "active", "requested")
        self.event("alloc", block.address, requested, block, stack)
        return block

    def free(self, block: Block, stack: Stack | None = None) -> None:
        """The tensor is gone; one that another stream still uses is freed by `synchronize`."""
        block.allocated = False
        said = block.stack if stack is None or self.recorder.context == "alloc" else stack
        self.event("free_requested", block.address, block.requested, block, said)
        self.counts["allocated"] -= block.size
        if block.pending:
            self.pending.append(block)
        else:
            self._complete(block, said)

    def record_stream(self, block: Block) -> None:
        """Another stream uses the block: its free waits for that stream."""
        block.pending = True

    def synchronize(self) -> None:
        """All streams have done their work."""
        waiting, self.pending = self.pending, []
        for block in waiting:
            block.pending = False
            self._complete(block, block.stack)

    def empty_cache(self) -> None:
        """What `torch.cuda.empty_cache` gives back to the driver."""
        reclaim.release_all(self)

    def reset_graph(self, pool: PoolId) -> None:
        """The last graph of this pool is gone: its free memory may be given back."""
        self.freeable.add(pool)

    def event(self, action: str, where: int, size: int, block: Block, stack: Stack) -> None:
        """Record what happened to a block."""
        self.recorder.event(action, where, size, block.stream, stack, block.pool.id)

    def reserve(self, size: int, granule: int) -> int:
        """An address for this many bytes, apart from all others."""
        address = self.next_address
        self.next_address += size + 2 * granule
        return address

    def fits(self, size: int) -> bool:
        """Whether the driver and the process's own limit have room for this many bytes more."""
        return size <= self.device_free and self.counts["reserved"] + size <= self.allowed

    def _cached(self, pool: Pool, stream: int, size: int) -> Block | None:
        pool.calls += 1
        limit = self.settings.max_split
        for block in pool.fitting(stream, size):
            if (size < limit <= block.size) or (
                size >= limit and block.size >= size + LARGE_BUFFER and limit != UNLIMITED
            ):
                return None
            best = mapping.least_expandable(pool, block, size) if block.region else block
            pool.remove(best)
            return best
        return None

    def _fresh(self, pool: Pool, stream: int, size: int, stack: Stack) -> Block | None:
        if self.settings.gc_threshold:
            reclaim.collect(self)
        found = self._segment(pool, stream, size, stack)
        if found is None and reclaim.release_oversize(self, pool, stream, size):
            found = self._segment(pool, stream, size, stack)
        # Nothing may be given back to the driver while a pool is filled: no second try either.
        if found is None and self.capturing == DEFAULT_POOL:
            self.counts["sync_all_streams"] += 1
            reclaim.release_all(self)
            self.counts["retries"] += 1
            found = self._segment(pool, stream, size, stack)
        return found

    def _segment(self, pool: Pool, stream: int, size: int, stack: Stack) -> Block | None:
        if self.settings.expandable:
            return mapping.grow(self, pool, stream, size, stack)
        total = size_of_segment(size)
        if not self.fits(total):
            return None
        block = Block(self.reserve(total, LARGE_BUFFER), total, stream, pool)
        block.segment_stack = self.recorder.kept(stack)
        self.heads[block.address] = block
        self.counts["reserved"] += total
        self.counts["device_alloc"] += 1
        self.event("segment_alloc", block.address, total, block, stack)
        return block

    def _complete(self, block: Block, stack: Stack) -> None:
        self._count(block, -1, "active", "requested")
        self.event("free_completed", block.address, block.requested, block, stack)
        block.stack = ()
        if merge(block, block.previous):
            # The head of its segment may have been the one taken in.
            self._head(block)
        merge(block, block.next)
        block.pool.insert(block)

    def _head(self, block: Block) -> None:
        if block.address in self.heads:
            self.heads[block.address] = block

    def _count(self, block: Block, sign: int, *names: str) -> None:
        for name in names:
            self.counts[name] += sign * (block.requested if name == "requested" else block.size)

    def _out_of_memory(self, size: int, stream: int, stack: Stack) -> OutOfMemory:
        self.counts["ooms"] += 1
        self.recorder.event("oom", self.device_free, size, stream, stack, self.capturing)
        return OutOfMemory(message(self, size))
