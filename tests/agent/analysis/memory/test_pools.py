from __future__ import annotations

from gpudiag.agent.analysis.memory.pools import MIB, pools, releasable, segment_for
from gpudiag.agent.analysis.memory.requests import PRIVATE, STREAMS, serve, typical
from gpudiag.agent.analysis.snapshots import Block, Segment


def segment(*pieces: int, stream: int = 0, pool: tuple[int, int] = (0, 0), **more: bool) -> Segment:
    """Blocks of so many MiB, the negative ones free."""
    at, blocks = 0, []
    for piece in pieces:
        size = abs(piece) * MIB
        blocks.append(Block(at, size, size if piece > 0 else 0, piece > 0, False, []))
        at += size
    return Segment(0, 0, at, stream, False, pool, more.get("expandable", False), blocks)


def test_a_whole_free_segment_is_cache_and_no_fragment():
    (pool,) = pools([segment(-40), segment(2, -38)])
    assert (pool.releasable, pool.held, pool.largest) == (40 * MIB, 38 * MIB, 40 * MIB)


def test_expandable_segments_release_whole_granules_inside_free_blocks():
    assert releasable(segment(10, -50, 10, expandable=True)) == 40 * MIB
    assert releasable(segment(10, -29, 1, expandable=True)) == 0


def test_a_private_pool_gives_nothing_back():
    assert releasable(segment(-40, pool=(0, 1))) == 0


def test_streams_and_private_pools_are_pools_of_their_own():
    assert len(pools([segment(20), segment(20, stream=7), segment(20, pool=(0, 1))])) == 3


def test_free_blocks_above_max_split_size_serve_no_smaller_request():
    assert pools([segment(2, -38, 1, -5)], largest_split=20 * MIB)[0].largest == 5 * MIB


def test_segments_are_asked_for_as_the_allocator_does():
    sizes = (MIB, 2 * MIB, 10 * MIB, 10 * MIB + 512)
    assert [segment_for(n, expandable=False) // MIB for n in sizes] == [2, 20, 10, 12]
    assert segment_for(21 * MIB, expandable=True) == 40 * MIB


def test_a_free_block_serves():
    assert serve("typical", 30 * MIB, pools([segment(2, -38)]), 0).answer == "yes"


def test_what_the_device_has_left_serves():
    assert serve("typical", 50 * MIB, pools([segment(2, -38)]), 60 * MIB).answer == "new segment"


def test_whole_free_segments_of_another_stream_serve_after_empty_cache():
    found = pools([segment(2), segment(-60, stream=7)])
    assert serve("failed", 50 * MIB, found, 0).answer == "after empty_cache"


def test_memory_of_another_stream_or_pool_is_named_as_out_of_reach():
    for cause, other in ((STREAMS, {"stream": 7}), (PRIVATE, {"pool": (0, 1)})):
        asked = serve("failed", 50 * MIB, pools([segment(2), segment(1, -60, **other)]), 0)
        assert (asked.answer, asked.cause) == ("no", cause)


def test_too_little_free_memory_in_all_is_no_fragmentation():
    assert serve("failed", 500 * MIB, pools([segment(2, -38)]), 0).cause == ""


def test_without_the_device_figure_the_answer_is_open():
    assert serve("failed", 50 * MIB, pools([segment(2, -38)]), None).answer == "unknown"


def test_the_typical_size_is_weighed_by_bytes():
    assert typical({512: 1000, 100 * MIB: 30, 200 * MIB: 1}) == 100 * MIB
    assert typical({}) == 0
