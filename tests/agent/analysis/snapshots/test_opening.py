from __future__ import annotations

import gzip
import json
import os
import pickle
from pathlib import Path

import pytest

from gpudiag.agent.analysis.snapshots import opened
from gpudiag.probes.errors import UsageError

PLAIN = {"segments": [{"blocks": [], "segment_pool_id": (0, 0)}], "device_traces": [[]]}


class Evil:
    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self):
        return os.mkdir, (str(self.target),)


def written(folder: Path, data: bytes, name: str = "a.pickle") -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("protocol", range(6))
def test_every_protocol_is_read(tmp_path, protocol):
    assert opened(written(tmp_path, pickle.dumps(PLAIN, protocol))) == PLAIN


def test_gzip_is_told_by_its_bytes_not_its_name(tmp_path):
    assert opened(written(tmp_path, gzip.compress(pickle.dumps(PLAIN), mtime=0), "a.pkl")) == PLAIN


def test_equal_frames_of_json_become_one_object(tmp_path):
    frame = {"filename": "a.py", "line": 1, "name": "f"}
    first, second = opened(written(tmp_path, json.dumps([frame, frame]).encode(), "a.json"))
    assert first is second


def test_no_code_of_the_file_runs(tmp_path):
    target = tmp_path / "made"
    path = written(tmp_path, pickle.dumps({"segments": [Evil(target)]}))
    with pytest.raises(UsageError, match=r"asks for (posix|nt)\.mkdir; nothing was run"):
        opened(path)
    assert not target.exists()


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "is empty"),
        (b"\n\n", "is empty"),
        (pickle.dumps(PLAIN)[:-9], "cut off or damaged"),
        (gzip.compress(pickle.dumps(PLAIN), mtime=0)[:-9], "cut off or damaged"),
        (b"\x89PNG\r\n", "neither pickle nor JSON"),
        (b'{"segments": [', "not a torch memory snapshot"),
        (b"[" * 100_000, "nested too deeply"),
        (b"\x80\x04P1\n.", "cut off or damaged|an outside object"),
    ],
)
def test_what_is_no_snapshot_gets_one_line(tmp_path, data, why):
    with pytest.raises(UsageError, match=why) as caught:
        opened(written(tmp_path, data))
    assert "\n" not in str(caught.value)


def test_a_file_above_the_limit_is_refused_unread(tmp_path):
    with pytest.raises(UsageError, match="--max-size"):
        opened(written(tmp_path, pickle.dumps(PLAIN)), most=10)


def test_a_packed_bomb_stops_at_the_limit(tmp_path):
    bomb = gzip.compress(b"[" + b"1," * 2_000_000 + b"1]")
    with pytest.raises(UsageError, match="--max-size"):
        opened(written(tmp_path, bomb, "a.json.gz"), most=1_000_000)


def test_a_file_that_is_not_there_says_so(tmp_path):
    with pytest.raises(UsageError, match="No such file"):
        opened(tmp_path / "none.pickle")
