from __future__ import annotations

from pathlib import Path

import pytest

from gpudiag.agent.replay import fresh_engine, load, replay
from gpudiag.agent.replay_check import check

INCIDENTS = Path(__file__).parents[1] / "incidents"
FILES = sorted(INCIDENTS.rglob("*.yaml"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(INCIDENTS)))
def test_incident(path: Path) -> None:
    timeline = load(path)
    assert timeline.expectations.expect or timeline.expectations.quiet
    assert check(timeline.expectations, replay(timeline, fresh_engine())) == []
