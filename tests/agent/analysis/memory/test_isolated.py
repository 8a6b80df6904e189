"""Files that mean harm, or were damaged: the reader says one line, and its caller lives on."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import pytest

from gpudiag.agent.analysis.memory.isolated import digest_file
from gpudiag.probes.errors import UsageError
from tests.allocsim.leaks import scalar
from tests.allocsim.snapshot import dump

MEMO_BOMB = b"\x80\x04]r\xff\xff\xff\x7f."
LONG_STRING = b"\x80\x04\x8d\xff\xff\xff\xff\xff\x00\x00\x00abc."
DEEP_KEY = b"\x80\x04})" + b"\x85" * 2_000_000 + b"Ns."
DEEP_LIST = b"\x80\x04" + b"]" * 2_000_000 + b"a" * 1_999_999 + b"."
HUGE_INT = pickle.dumps({"segments": [{"blocks": [{"size": 2**63}]}]})


def test_a_snapshot_comes_back_whole(tmp_path):
    told: list[str] = []
    case = scalar()
    found = digest_file(dump(case.last, tmp_path / "a.pickle"), tell=told.append)
    assert found.devices[0].live == case.allocated[-1]
    assert told == ["loading", "following the trace"]


@pytest.mark.parametrize("data", [MEMO_BOMB, LONG_STRING, DEEP_KEY, DEEP_LIST])
def test_bombs_end_in_one_line(tmp_path, data):
    path = tmp_path / "bomb.pickle"
    path.write_bytes(data)
    with pytest.raises(UsageError) as caught:
        digest_file(path)
    assert str(caught.value).startswith("bomb.pickle ")
    assert "\n" not in str(caught.value)


def test_numbers_beyond_any_memory_are_left_out(tmp_path):
    path = tmp_path / "a.pickle"
    path.write_bytes(HUGE_INT)
    assert digest_file(path).devices[0].live == 0


def test_a_file_that_reduces_to_a_call_runs_nothing(tmp_path):
    class Evil:
        def __reduce__(self):
            return os.system, (f"touch {tmp_path / 'made'}",)

    path = tmp_path / "evil.pickle"
    path.write_bytes(pickle.dumps([Evil()]))
    with pytest.raises(UsageError, match="nothing was run"):
        digest_file(path)
    assert not (tmp_path / "made").exists()


def test_a_file_that_is_gone_says_so():
    with pytest.raises(UsageError, match="cannot read"):
        digest_file(Path("none.pickle"))
