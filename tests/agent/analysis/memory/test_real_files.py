"""Snapshots of real jobs, where a folder of them lies beside the project or is named."""

from __future__ import annotations

import os
import resource
from pathlib import Path

import pytest

from gpudiag.agent.analysis.memory import categories
from gpudiag.agent.analysis.memory.digest import Device, Digest
from gpudiag.agent.analysis.memory.isolated import digest_file
from tests.agent.analysis.memory.seam import judged

BESIDE = Path(__file__).parents[5] / "shared" / "data" / "snapshots"
FOLDER = Path(os.environ.get("GPUDIAG_TEST_SNAPSHOTS", BESIDE))

pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason=f"no snapshots in {FOLDER}")


def read(name: str) -> tuple[Digest, Device]:
    found = digest_file(FOLDER / name)
    return found, found.devices[0]


def share(device: Device, category: str) -> float:
    return sum(h.bytes for h in device.holds if h.category == category) / device.live


def test_every_file_reads_and_none_is_called_a_leak():
    for path in sorted(FOLDER.glob("*.pickle")):
        part = judged([digest_file(path)])
        assert part.verdict.kind not in ("leak", "fragmentation"), path.name


def test_a_training_step_is_told_apart_though_a_part_has_no_frames():
    _, device = read("real-adamw-full-step.pickle")
    assert share(device, categories.OPTIMIZER) == pytest.approx(0.5, abs=0.02)
    assert share(device, categories.PARAMETERS) == pytest.approx(0.25, abs=0.02)
    assert share(device, categories.GRADIENTS) == pytest.approx(0.25, abs=0.02)


def test_whole_free_segments_are_not_fragments():
    _, device = read("real-adamw-full-step.pickle")
    assert sum(pool.releasable for pool in device.pools) > 5.5 * 2**30
    assert sum(pool.held for pool in device.pools) < 0.2 * 2**30


def test_the_large_file_takes_under_half_a_second():
    best = min(_seconds(FOLDER / "real-adamw-full-step.pickle") for _ in range(3))
    assert best < 0.5


def _seconds(path: Path) -> float:
    """CPU time of the reader: the same however busy the machine is."""
    began = _spent()
    digest_file(path)
    return _spent() - began


def _spent() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def test_stacks_without_a_trace_give_call_sites():
    _, device = read("real-state-only.pickle")
    assert device.sites[device.holds[1].site].short == "models/cache_utils_V2.py:225"


def test_inconsistent_sums_are_told():
    found, _ = read("synthetic-inconsistent.pickle")
    assert "5 segments whose blocks do not add up to their size" in found.notes
