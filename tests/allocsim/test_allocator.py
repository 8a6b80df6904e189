import itertools
import random

import pytest

from tests.allocsim.allocator import Allocator, Device, OutOfMemory
from tests.allocsim.rules import GIB, KIB, MIB, Settings, round_size, segment_size
from tests.allocsim.snapshot import snapshot

SETTINGS = [
    Settings(),
    Settings(expandable=True),
    Settings(max_split=64 * MIB),
    Settings(gc_threshold=0.5),
    Settings(roundup_divisions=4),
]


@pytest.mark.parametrize(
    ("size", "rounded", "segment"),
    [
        (1, 512, 2 * MIB),
        (513, 1024, 2 * MIB),
        (MIB, MIB, 2 * MIB),
        (MIB + 1, MIB + 512, 20 * MIB),
        (10 * MIB, 10 * MIB, 10 * MIB),
        (11 * MIB, 11 * MIB, 12 * MIB),
    ],
)
def test_sizes(size: int, rounded: int, segment: int) -> None:
    assert round_size(size, Settings()) == rounded
    assert segment_size(rounded) == segment


def test_parts_of_a_power_of_two() -> None:
    assert round_size(1200 * KIB, Settings(roundup_divisions=4)) == 1280 * KIB


@pytest.mark.parametrize("settings", SETTINGS, ids=lambda s: s.text)
def test_blocks_fill_their_segments_whatever_happens(settings: Settings) -> None:
    owner, chance = Allocator(Device(2 * GIB), settings), random.Random(5)
    live = []
    for _ in range(1500):
        try:
            size = chance.choice((8, 700, 70_000, 3 * MIB, 40 * MIB)) * chance.randrange(1, 4)
            live.append(owner.malloc(size, stream=chance.choice((0, 0, 7))))
        except OutOfMemory:
            owner.synchronize()
        while len(live) > 40:
            block = live.pop(chance.randrange(len(live)))
            if chance.random() < 0.2:
                owner.record_stream(block)
            owner.free(block)
    _consistent(owner)
    for block in live:
        owner.free(block)
    owner.empty_cache()
    assert (owner.counts["allocated"], owner.counts["active"], owner.counts["reserved"]) == (0,) * 3


def _consistent(owner: Allocator) -> None:
    segments = snapshot(owner)["segments"]
    assert sum(s["total_size"] for s in segments) == owner.counts["reserved"]
    assert sum(s["allocated_size"] for s in segments) == owner.counts["allocated"]
    assert sum(s["active_size"] for s in segments) == owner.counts["active"]
    assert sum(s["requested_size"] for s in segments) == owner.counts["requested"]
    for segment in segments:
        at = segment["address"]
        for block in segment["blocks"]:
            assert block["address"] == at
            at += block["size"]
        assert at == segment["address"] + segment["total_size"]
        states = [block["state"] for block in segment["blocks"]]
        assert ("inactive", "inactive") not in list(itertools.pairwise(states))


def test_memory_of_another_stream_or_pool_is_not_used_again() -> None:
    owner = Allocator()
    for stream, pool in ((0, (0, 0)), (7, (0, 0)), (0, (0, 1))):
        with owner.private(pool):
            owner.free(owner.malloc(30 * MIB, stream=stream))
    assert owner.counts["reserved"] == 90 * MIB


def test_an_expandable_segment_grows_in_place_and_gives_back_what_is_whole() -> None:
    owner = Allocator(settings=Settings(expandable=True))
    blocks = [owner.malloc(15 * MIB) for _ in range(4)]
    assert [s["total_size"] for s in snapshot(owner)["segments"]] == [60 * MIB]
    for block in blocks[:3]:
        owner.free(block)
    owner.empty_cache()
    assert [s["total_size"] for s in snapshot(owner)["segments"]] == [20 * MIB]


def test_a_failed_request_is_tried_again_and_told() -> None:
    owner = Allocator(Device(GIB, context=0))
    owner.free(owner.malloc(600 * MIB))
    owner.malloc(700 * MIB)
    assert owner.counts["retries"] == 1
    with pytest.raises(OutOfMemory, match=r"Tried to allocate 400\.00 MiB\. GPU 0 has a total"):
        owner.malloc(400 * MIB)
    assert owner.recorder.entries[-1]["device_free"] == 324 * MIB


def test_oversize_blocks_are_kept_for_large_requests() -> None:
    owner = Allocator(settings=Settings(max_split=64 * MIB))
    owner.free(owner.malloc(100 * MIB))
    owner.malloc(30 * MIB)
    assert owner.counts["reserved"] == 130 * MIB


def test_garbage_collection_frees_what_was_looked_past_longest() -> None:
    owner = Allocator(Device(GIB, context=0), Settings(gc_threshold=0.5))
    owner.free(owner.malloc(300 * MIB))
    owner.malloc(320 * MIB)
    owner.malloc(340 * MIB)
    assert owner.counts["reserved"] == 660 * MIB
