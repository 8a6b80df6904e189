"""Could a request be served, and why not: the only question about fragmentation that matters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from gpudiag.agent.analysis.memory import figures
from gpudiag.agent.analysis.memory.pools import SMALL_REQUEST, Pool, segment_for
from gpudiag.agent.analysis.snapshots.shape import DEFAULT_POOL

Answer = Literal["yes", "new segment", "after empty_cache", "no", "unknown"]

PRIVATE = "private-pools-stranded"
STREAMS = "stream-pools"
PINNED = "pinned-by-few-live-blocks"
SHAPES = "variable-shapes"


class Request(msgspec.Struct, frozen=True):
    """A request of `size` bytes and whether it can be served; `kind` is failed or typical.

    `missed` says where the free bytes lie that it cannot have; `cause` names the largest of them
    where all free memory together would do.
    """

    kind: str
    size: int
    answer: Answer
    why: str
    cause: str = ""
    missed: tuple[tuple[str, int], ...] = ()


def typical(sizes: Mapping[int, int]) -> int:
    """The size that 90 % of all bytes asked for stay under or at; 0 where nothing was asked."""
    total = sum(size * count for size, count in sizes.items())
    below = 0
    for size in sorted(sizes):
        below += size * sizes[size]
        if below >= 0.9 * total:
            return size
    return 0


def serve(
    kind: str,
    size: int,
    found: Sequence[Pool],
    device_free: int | None,
    *,
    stream: int = 0,
    pool: tuple[int, int] = DEFAULT_POOL,
) -> Request:
    """Whether the pools of one device can serve a request of `size` bytes, and if not, why not.

    `device_free` are the bytes the driver has left, None where nobody told.
    """
    small = size <= SMALL_REQUEST
    own = [p for p in found if (p.stream, p.id, p.small) == (stream, pool, small)]
    largest = max((p.largest for p in own), default=0)
    if largest >= size:
        return Request(kind, size, "yes", f"a free block of {figures.size(largest)} serves it")
    needs = segment_for(size, expandable=any(p.expandable for p in own))
    given = sum(p.releasable for p in found)
    missed = _missed(found, own)
    where = f"no free block is that large (largest {figures.size(largest)})"
    if device_free is None:
        new = f"a new segment of {figures.size(needs)} is needed"
        why = f"{where}; {new}, and what the device has left is not known"
        return Request(kind, size, "unknown", why, _cause(size, missed), missed)
    if device_free >= needs:
        why = f"{where}, the device has {figures.size(device_free)} left for a new segment"
        return Request(kind, size, "new segment", why)
    if device_free + given >= needs:
        why = f"{where}; giving back {figures.size(given)} of whole free segments makes room"
        return Request(kind, size, "after empty_cache", why)
    cause = _cause(size, missed, device_free + given)
    parts = ", ".join(f"{figures.size(n)} {what}" for what, n in _words(missed)) or "nothing free"
    left = f"the device has {figures.size(device_free)} left"
    return Request(kind, size, "no", f"{where}; {left}; {parts}", cause, missed)


def _missed(found: Sequence[Pool], own: Sequence[Pool]) -> tuple[tuple[str, int], ...]:
    """Free bytes out of reach, by cause, the most first."""
    sums = {PRIVATE: 0, STREAMS: 0, PINNED: 0, SHAPES: 0}
    for pool in found:
        if pool in own:
            sums[PINNED] += min(pool.thin, pool.held)
            sums[SHAPES] += max(0, pool.held - pool.thin)
        elif own and pool.id == own[0].id and pool.stream == own[0].stream:
            sums[SHAPES] += pool.held
        elif pool.private:
            sums[PRIVATE] += pool.held
        else:
            sums[STREAMS] += pool.held
    return tuple(sorted(((w, n) for w, n in sums.items() if n), key=lambda item: -item[1]))


def _cause(size: int, missed: tuple[tuple[str, int], ...], other: int = 0) -> str:
    return missed[0][0] if missed and sum(n for _, n in missed) + other >= size else ""


_WORDS = {
    PRIVATE: "free in private pools (CUDA graphs, MemPool) that nobody else may use",
    STREAMS: "free in pools of other streams",
    PINNED: "free in segments held by few live blocks",
    SHAPES: "free in pieces between live blocks",
}


def _words(missed: tuple[tuple[str, int], ...]) -> list[tuple[str, int]]:
    return [(_WORDS[cause], size) for cause, size in missed]
