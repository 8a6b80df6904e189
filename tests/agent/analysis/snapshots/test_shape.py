from __future__ import annotations

from typing import Any

import pytest

from gpudiag.agent.analysis.snapshots import shaped
from gpudiag.probes.errors import UsageError


def segment(*blocks: Any, **more: Any) -> dict[str, Any]:
    return {"address": 4096, "total_size": 1024, "blocks": list(blocks), **more}


def block(size: int = 512, state: str = "active_allocated", **more: Any) -> dict[str, Any]:
    return {"size": size, "requested_size": size, "state": state, **more}


def test_a_bare_list_of_segments_is_a_snapshot():
    assert shaped([segment(block(1024))]).segments[0].size == 1024


def test_addresses_that_old_files_lack_add_up():
    found = shaped([segment(block(), block())]).segments[0].blocks
    assert [b.address for b in found] == [4096, 4608]


def test_history_of_torch_1_gives_frames_and_size():
    old = {"size": 512, "state": "active_allocated", "history": [{"real_size": 4, "frames": [1]}]}
    found = shaped([segment(old, block())]).segments[0].blocks[0]
    assert (found.requested, found.frames) == (4, [1])


@pytest.mark.parametrize("state", ["active_pending_free", "active_awaiting_free"])
def test_both_spellings_of_pending_are_known(state):
    assert shaped([segment(block(1024, state))]).segments[0].blocks[0].pending


def test_the_stale_request_of_a_free_block_is_no_request():
    assert shaped([segment(block(1024, "inactive"))]).segments[0].blocks[0].requested == 0


@pytest.mark.parametrize("key", ["segment_pool_id", "private_pool_id", "pool_id", "pool"])
def test_pool_ids_are_read_under_every_name_and_as_lists(key):
    assert shaped([segment(block(1024), **{key: [0, 3]})]).segments[0].pool == (0, 3)


def test_sums_that_do_not_add_up_are_told():
    assert shaped([segment(block())]).notes == [
        "1 segments whose blocks do not add up to their size"
    ]


def test_one_list_in_many_places_is_walked_once():
    trace = [{"action": "alloc"}]
    found = shaped({"segments": [], "device_traces": [trace] * 1000})
    assert sum(map(len, found.traces)) == 1
    assert found.notes[0].startswith("999 traces")


@pytest.mark.parametrize("plain", [None, 3, {}, {"segments": 3}, [{"no": 1}], {"segments": [7]}])
def test_other_objects_are_no_snapshot(plain):
    with pytest.raises(UsageError, match="not a torch memory snapshot"):
        shaped(plain)


def test_blocks_of_nonsense_are_left_out_and_counted():
    found = shaped([segment(block(1024), {"size": -1}, 3, block(True))])
    assert len(found.segments[0].blocks) == 1
    assert "3 blocks without a size (left out)" in found.notes
