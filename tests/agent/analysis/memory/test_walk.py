from __future__ import annotations

from typing import Any

from gpudiag.agent.analysis.memory.walk import walk


def event(action: str, addr: int, size: int = 512, **more: Any) -> dict[str, Any]:
    return {"action": action, "addr": addr, "size": size, **more}


def site(frames: Any) -> int:
    return frames[0] if frames else 0


def test_blocks_that_outlive_a_mark_are_changes_of_their_site():
    trace = [
        event("alloc", 1, frames=[7]),
        event("alloc", 2, frames=[8]),
        event("free_completed", 1),
    ]
    found = walk(trace, [0, 2, 3], site)
    assert found.lived == {7: {1: [512, 1], 2: [-512, -1]}, 8: {1: [512, 1]}}
    assert found.allocated == [0, 1024, 512]


def test_blocks_within_a_mark_leave_no_trace():
    trace = [event("alloc", 1), event("free_requested", 1), event("free_completed", 1)]
    found = walk(trace, [0, 3], site)
    assert (found.lived, found.live, found.peak) == ({}, {}, 512)


def test_sizes_are_rounded_as_the_allocator_does():
    assert walk([event("alloc", 1, 4)], [0, 1], site).allocated == [0, 512]


def test_frees_of_blocks_older_than_the_ring_lower_the_sum():
    found = walk([event("free_completed", 9, 1024)], [0, 1], site)
    assert (found.allocated, found.gone) == ([0, -1024], {1: [-1024, -1]})


def test_a_reused_address_is_another_block():
    trace = [
        event("alloc", 1, frames=[7]),
        event("free_completed", 1),
        event("alloc", 1, frames=[8]),
    ]
    assert walk(trace, [0, 3], site).lived == {8: {1: [512, 1]}}


def test_requests_stand_in_where_completions_were_skipped():
    found = walk([event("alloc", 1), event("free_requested", 1)], [0, 2], site)
    assert found.live == {}


def test_segments_are_summed():
    trace = [
        event("segment_alloc", 1, 100),
        event("segment_map", 1, 7),
        event("segment_unmap", 1, 5),
    ]
    assert walk(trace, [0, 3], site).reserved == [0, 102]


def test_a_failure_keeps_what_the_device_had_left():
    trace = [{"action": "oom", "device_free": 99, "size": 1024, "stream": 0}]
    assert walk(trace, [0, 1], site).failures[0][:2] == (1024, 99)


def test_nonsense_is_counted_and_the_rest_followed():
    trace = [
        event("alloc", 1),
        3,
        event("alloc", 2, -1),
        {"action": "alloc"},
        event("alloc", 3, 10**30),
    ]
    found = walk(trace, [0, 5], site)
    assert (found.bad, found.allocated[-1]) == (4, 512)
