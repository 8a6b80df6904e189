"""Snapshots in the shape of `torch.cuda.memory._snapshot()`, with the keys of a given release."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.allocsim.allocator import Allocator
from tests.allocsim.blocks import Block
from tests.allocsim.recorder import Entry
from tests.allocsim.rules import POWERS, UNLIMITED

Snapshot = dict[str, Any]
Version = tuple[int, int]
NEWEST: Version = (2, 13)
_SINCE: dict[str, Version] = {
    "time_us": (2, 2),
    "compile_context": (2, 8),
    "user_metadata": (2, 10),
    "pool_id": (2, 12),
}


def snapshot(*owners: Allocator, version: Version = NEWEST) -> Snapshot:
    """What torch of this release would give for these devices; records that it was taken."""
    traces = [_trace(owner, version) for owner in owners]
    segments = [segment for owner in owners for segment in _segments(owner)]
    for owner in owners:
        owner.recorder.event("snapshot", 0, owner.counts["active"], 0, (), (0, 0))
    found: Snapshot = {"segments": segments, "device_traces": traces}
    if version >= (2, 3):
        found["allocator_settings"] = _settings(owners[0], version)
    if version >= (2, 5):
        found["external_annotations"] = [
            dict(note) for owner in owners for note in owner.recorder.annotations
        ]
    return found


def dump(found: Snapshot | Sequence[Any], path: Path, protocol: int = 4) -> Path:
    """Write it as `_dump_snapshot` does."""
    path.write_bytes(pickle.dumps(found, protocol))
    return path


def _trace(owner: Allocator, version: Version) -> list[Entry]:
    unknown = {key for key, since in _SINCE.items() if version < since}
    if not unknown:
        return list(owner.recorder.entries)
    return [
        {key: value for key, value in entry.items() if key not in unknown}
        for entry in owner.recorder.entries
    ]


def _segments(owner: Allocator) -> list[dict[str, Any]]:
    ranges = [run for head in owner.heads.values() for run in _mapped(head)]
    return [_segment(owner, run) for run in sorted(ranges, key=lambda run: run[0].address)]


def _mapped(head: Block) -> Iterator[list[Block]]:
    """The runs of mapped blocks: one is a segment to whoever reads the snapshot."""
    run: list[Block] = []
    block: Block | None = head
    while block:
        if block.mapped:
            run.append(block)
        elif run:
            yield run
            run = []
        block = block.next
    if run:
        yield run


def _segment(owner: Allocator, run: Sequence[Block]) -> dict[str, Any]:
    first = run[0]
    return {
        "device": owner.index,
        "address": first.address,
        "total_size": sum(block.size for block in run),
        "allocated_size": sum(block.size for block in run if block.allocated),
        "active_size": sum(block.size for block in run if block.active),
        "requested_size": sum(block.requested for block in run if block.active),
        "stream": first.stream,
        "segment_type": "small" if first.pool.small else "large",
        "segment_pool_id": first.pool.id,
        "is_expandable": first.region is not None,
        "frames": list(first.segment_stack),
        "blocks": [_block(block) for block in run],
    }


def _block(block: Block) -> dict[str, Any]:
    state = "active_pending_free" if block.pending else "inactive"
    return {
        "address": block.address,
        "size": block.size,
        # A free block keeps what its last tensor asked for.
        "requested_size": block.requested,
        "state": "active_allocated" if block.allocated else state,
        "frames": list(block.stack),
    }


def _settings(owner: Allocator, version: Version) -> dict[str, Any]:
    said = owner.settings
    found: dict[str, Any] = {
        "PYTORCH_CUDA_ALLOC_CONF": said.text,
        "max_split_size": -1 if said.max_split == UNLIMITED else said.max_split,
        "garbage_collection_threshold": said.gc_threshold,
        "expandable_segments": said.expandable,
        "pinned_num_register_threads": 1,
        "release_lock_on_cudamalloc": False,
        "pinned_use_cuda_host_register": False,
        "roundup_power2_divisions": dict.fromkeys(POWERS, said.roundup_divisions),
    }
    if version >= (2, 9):
        found["graph_capture_record_stream_reuse"] = False
    return found
