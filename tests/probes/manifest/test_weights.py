from __future__ import annotations

import hashlib
import json
import struct

import pytest

from gpudiag.agent.rules._answers import WEIGHTS
from gpudiag.probes.manifest.weights import faults


def safetensors(path, size=16, cut=0):
    header = json.dumps({"w": {"dtype": "F32", "shape": [4], "data_offsets": [0, size]}}).encode()
    whole = struct.pack("<Q", len(header)) + header + b"\0" * size
    path.write_bytes(whole[: len(whole) - cut])
    return path


@pytest.fixture
def folder(tmp_path):
    """A model of two shards with its index."""
    names = [f"model-0000{n}-of-00002.safetensors" for n in (1, 2)]
    for name in names:
        safetensors(tmp_path / name)
    index = {"weight_map": {"a": names[0], "b": names[1]}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    return tmp_path


def told(folder, **how):
    return [(fault.kind, fault.file) for fault in faults(folder, **how)]


def test_a_whole_model_has_no_fault(folder):
    assert told(folder) == []


def test_a_shard_that_is_not_there(folder):
    (folder / "model-00002-of-00002.safetensors").unlink()
    assert told(folder) == [("missing", "model-00002-of-00002.safetensors")]


def test_a_shard_is_missed_without_an_index(folder):
    (folder / "model.safetensors.index.json").unlink()
    (folder / "model-00001-of-00002.safetensors").unlink()
    assert told(folder) == [("missing", "model-00001-of-00002.safetensors")]


def test_a_file_that_was_cut_off(folder):
    safetensors(folder / "model-00002-of-00002.safetensors", cut=1)
    (fault,) = faults(folder)
    assert fault.kind == "cut-off"
    assert fault.line.startswith("weights: incomplete file model-00002-of-00002.safetensors: ")


@pytest.mark.parametrize(
    "content",
    [b"", b"\0" * 7, b"\xff" * 64, struct.pack("<Q", 2) + b"[]", struct.pack("<Q", 9) + b"{"],
)
def test_what_is_no_safetensors_is_broken(tmp_path, content):
    (tmp_path / "model.safetensors").write_bytes(content)
    assert told(tmp_path) == [("broken", "model.safetensors")]


@pytest.mark.parametrize("text", ["{", "[]", '{"weight_map": 7}'])
def test_a_broken_index_is_told(tmp_path, text):
    safetensors(tmp_path / "model.safetensors")
    (tmp_path / "model.safetensors.index.json").write_text(text)
    assert told(tmp_path) == [("broken", "model.safetensors.index.json")]


def test_a_distributed_checkpoint_without_its_metadata(tmp_path):
    (tmp_path / "__0_0.distcp").write_bytes(b"x")
    assert told(tmp_path) == [("cut-off", ".metadata")]
    (tmp_path / ".metadata").write_bytes(b"x")
    assert told(tmp_path) == []


def test_digests_of_a_list_beside_the_files(folder):
    name = "model-00001-of-00002.safetensors"
    right = hashlib.sha256((folder / name).read_bytes()).hexdigest()
    (folder / "SHA256SUMS").write_text(f"{right}  {name}\n")
    assert told(folder, digests=True) == []
    (folder / "SHA256SUMS").write_text(f"{'0' * 64} *{name}\n")
    assert told(folder, digests=True) == [("differs", name)]
    assert told(folder) == []


def test_a_cache_names_its_files_by_their_digest(tmp_path):
    (tmp_path / "blobs").mkdir()
    (tmp_path / "snapshot").mkdir()
    blob = safetensors(tmp_path / "blobs" / ("0" * 64))
    (tmp_path / "snapshot" / "model.safetensors").symlink_to(blob)
    seen = []
    found = faults(tmp_path / "snapshot", digests=True, tell=lambda n, s: seen.append((n, s)))
    assert [fault.kind for fault in found] == ["differs"]
    assert seen == [("model.safetensors", blob.stat().st_size)]


@pytest.mark.parametrize("name", ["empty", "gone"])
def test_nothing_at_all_is_a_fault(tmp_path, name):
    (tmp_path / "empty").mkdir()
    assert [fault.kind for fault in faults(tmp_path / name)] == ["missing"]


def test_the_rules_know_these_lines(folder):
    (folder / "model-00002-of-00002.safetensors").unlink()
    safetensors(folder / "model-00001-of-00002.safetensors", cut=1)
    assert all(WEIGHTS.search(fault.line) for fault in faults(folder))
