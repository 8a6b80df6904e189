import pickle
from pathlib import Path
from typing import Any

import pytest
from torch.cuda import _memory_viz

from tests.allocsim import leaks
from tests.allocsim.scenarios import FRAGMENTS, LEAKS, SCENARIOS
from tests.allocsim.snapshot import dump


def _read(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        found: dict[str, Any] = pickle.load(file)
    return found


@pytest.mark.parametrize("name", SCENARIOS)
def test_torch_reads_what_is_written(name: str, tmp_path: Path) -> None:
    case = SCENARIOS[name]()
    found = _read(dump(case.last, tmp_path / "snapshot.pickle"))
    assert f"segments: {len(found['segments'])}" in _memory_viz.segsum(found)
    assert "alloc" in _memory_viz.trace(found)
    assert len(case.snapshots) == len(case.steps) == len(case.allocated)


@pytest.mark.parametrize("make", LEAKS, ids=lambda make: make.__name__)
def test_leaks_keep_what_is_planted(make: Any) -> None:
    case = make()
    sizes = case.used if case.truth.outside_per_step else case.allocated
    rate = (sizes[-1] - sizes[0]) / (case.steps[-1] - case.steps[0])
    # The allocator hands out a block whole where at most 1 MiB would be left.
    assert rate == pytest.approx(case.truth.per_step, rel=0.03)


@pytest.mark.parametrize("make", FRAGMENTS, ids=lambda make: make.__name__)
def test_free_memory_would_have_sufficed(make: Any) -> None:
    case = make()
    free = case.reserved[-1] - case.allocated[-1]
    assert "out of memory" in case.error
    assert free > case.truth.failed
    assert case.last["device_traces"][0][-1]["action"] == "oom"


@pytest.mark.parametrize(
    ("version", "missing"),
    [((2, 1), "time_us"), ((2, 7), "compile_context"), ((2, 11), "pool_id")],
)
def test_older_releases_have_fewer_keys(version: tuple[int, int], missing: str) -> None:
    last = leaks.kept_graph(version=version).last
    assert all(missing not in entry for entry in last["device_traces"][0])
    assert ("external_annotations" in last) == (version >= (2, 5))
    assert ("allocator_settings" in last) == (version >= (2, 3))
