"""Fixtures for every test."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path

import pytest

# Tests share helpers as `tests.<name>`; importlib mode leaves the root off the path.
sys.path.insert(0, str(Path(__file__).parents[1]))

# Examples are the same in every run, and none is refused because the machine was busy. The matrix
# of torch's releases runs without hypothesis.
with suppress(ImportError):
    from hypothesis import HealthCheck, settings

    slow = [HealthCheck.too_slow, HealthCheck.data_too_large]
    settings.register_profile(
        "steady", derandomize=True, deadline=None, database=None, suppress_health_check=slow
    )
    settings.load_profile("steady")

from tests.simdriver.building import build
from tests.simdriver.state import SimDriver


@pytest.fixture(scope="session")
def simdriver_library() -> Path:
    """The folder of the simulated `libnvidia-ml.so.1`."""
    return build()


@pytest.fixture
def sim(tmp_path: Path, simdriver_library: Path) -> SimDriver:
    """A simulated driver of eight H100; pass `sim.environment` to the process under test."""
    folder = tmp_path / "simdriver"
    folder.mkdir()
    return SimDriver(folder / "state", simdriver_library)
