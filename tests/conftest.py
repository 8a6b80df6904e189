"""Fixtures for every test."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

# Tests share helpers as `tests.<name>`; importlib mode leaves the root off the path.
sys.path.insert(0, str(Path(__file__).parents[1]))

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
