"""What a snapshot says, whatever its age and producer: segments, traces, settings, annotations.

Unknown keys are ignored, missing ones filled where their value follows from the others, and
entries that make no sense are left out and counted in `notes`, never hidden.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gpudiag.probes.errors import UsageError

DEFAULT_POOL = (0, 0)
_POOL_KEYS = ("segment_pool_id", "private_pool_id", "pool_id", "pool")
_ACTIVE = "active_allocated"
# torch writes the first and documents the second.
_PENDING = ("active_pending_free", "active_awaiting_free")
_LARGEST = 2**62


@dataclass(slots=True, frozen=True)
class Block:
    """A piece of a segment; bytes. `requested` is 0 for a free one: there it is a stale figure."""

    address: int
    size: int
    requested: int
    live: bool
    pending: bool
    frames: Sequence[Any]


@dataclass(slots=True, frozen=True)
class Segment:
    """A range that the allocator took from the driver, `size` bytes, cut into blocks."""

    device: int
    address: int
    size: int
    stream: int
    small: bool
    pool: tuple[int, int]
    expandable: bool
    blocks: list[Block]


@dataclass(slots=True)
class Memory:
    """One snapshot. `traces` are the raw entries per device, oldest first."""

    segments: list[Segment] = field(default_factory=list)
    traces: list[list[Any]] = field(default_factory=list)
    settings: dict[str, Any] = field(default_factory=dict)
    annotations: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def shaped(plain: Any, name: str = "the file") -> Memory:
    """The snapshot in these plain objects; raises `UsageError` where they are something else."""
    if isinstance(plain, list):
        plain = {"segments": plain}
    if not isinstance(plain, dict) or not isinstance(plain.get("segments"), list):
        raise UsageError(f"{name} is not a torch memory snapshot: it has no list of segments")
    raw = plain["segments"]
    if raw and not any(isinstance(s, dict) and "blocks" in s for s in raw):
        raise UsageError(f"{name} is not a torch memory snapshot: its segments have no blocks")
    counts: Counter[str] = Counter()
    memory = Memory(
        segments=list(_segments(raw, counts)),
        traces=list(_traces(plain, counts)),
        settings=_dict(plain.get("allocator_settings")),
        annotations=list(_annotations(plain.get("external_annotations"))),
    )
    memory.notes = [f"{count} {what}" for what, count in sorted(counts.items()) if count]
    return memory


def whole(value: Any) -> int | None:
    """The value where it is a sensible count of bytes or an address, else None."""
    return value if type(value) is int and 0 <= value < _LARGEST else None


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _traces(plain: Mapping[str, Any], counts: Counter[str]) -> Iterator[list[Any]]:
    found = plain.get("device_traces", plain.get("traces"))
    seen: set[int] = set()
    for trace in found if isinstance(found, list) else []:
        # One list in many places is a small file that takes forever to walk.
        fresh = isinstance(trace, list) and (not trace or id(trace) not in seen)
        counts["traces that are no list of their own (left out)"] += not fresh
        seen.add(id(trace))
        yield trace if fresh else []


def _annotations(found: Any) -> Iterator[dict[str, Any]]:
    for note in found if isinstance(found, list) else []:
        named = isinstance(note, dict) and isinstance(note.get("name"), str)
        if named and whole(note.get("time_us")) is not None:
            yield note


def _segments(raw: list[Any], counts: Counter[str]) -> Iterator[Segment]:
    seen: set[int] = set()
    for item in raw:
        blocks = item.get("blocks") if isinstance(item, dict) else None
        if not isinstance(blocks, list) or id(blocks) in seen:
            counts["segments without blocks of their own (left out)"] += 1
            continue
        seen.add(id(blocks))
        yield _segment(item, blocks, counts)


def _segment(item: dict[str, Any], raw: list[Any], counts: Counter[str]) -> Segment:
    address = whole(item.get("address")) or 0
    blocks = list(_blocks(raw, address, counts))
    summed = sum(block.size for block in blocks)
    told = whole(item.get("total_size"))
    size = summed if told is None else told
    counts["segments whose blocks do not add up to their size"] += size != summed
    active = sum(block.size for block in blocks if block.live or block.pending)
    counts["segments whose live blocks do not add up to active_size"] += (
        whole(item.get("active_size", active)) != active
    )
    return Segment(
        device=whole(item.get("device")) or 0,
        address=address,
        size=size,
        stream=whole(item.get("stream")) or 0,
        small=item.get("segment_type") == "small",
        pool=pool_id(item),
        expandable=item.get("is_expandable") is True,
        blocks=blocks,
    )


def pool_id(item: Mapping[str, Any]) -> tuple[int, int]:
    """The private pool of a segment or trace entry, whatever its key is called; (0, 0) is none."""
    value = next((item[key] for key in _POOL_KEYS if key in item), DEFAULT_POOL)
    if isinstance(value, tuple | list) and len(value) == 2:
        first, second = whole(value[0]), whole(value[1])
        if first is not None and second is not None:
            return first, second
    return DEFAULT_POOL


def _blocks(raw: list[Any], address: int, counts: Counter[str]) -> Iterator[Block]:
    for item in raw:
        size = whole(item.get("size")) if isinstance(item, dict) else None
        if size is None:
            counts["blocks without a size (left out)"] += 1
            continue
        at = whole(item.get("address"))
        address = address if at is None else at
        yield _block(item, address, size)
        address += size


def _block(item: dict[str, Any], address: int, size: int) -> Block:
    state = item.get("state")
    live, pending = state == _ACTIVE, state in _PENDING
    frames, requested = item.get("frames"), whole(item.get("requested_size"))
    history = item.get("history")
    if history and isinstance(history, list) and isinstance(history[0], dict):
        frames = frames or history[0].get("frames")
        requested = whole(history[0].get("real_size")) if requested is None else requested
    used = min(size if requested is None else requested, size) if live or pending else 0
    return Block(
        address, size, used, live, pending, frames if isinstance(frames, list | tuple) else ()
    )
