"""Fixtures of the hooks' tests: an agent's end, and torch left as it was found."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gpudiag.probes.torch.current import CURRENT
from gpudiag.probes.torch.guard import FAILURES
from tests.probes.torch.peer import Peer


@pytest.fixture
def peer(tmp_path: Path) -> Iterator[Peer]:
    with Peer(tmp_path / "agent.sock") as listening:
        yield listening


@pytest.fixture(autouse=True)
def _nothing_left() -> Iterator[None]:
    """No hook stays after a test, and none failed unless the test says so by clearing."""
    FAILURES.counts.clear()
    FAILURES.untold.clear()
    yield
    while CURRENT.session is not None:
        CURRENT.detach()
    assert not FAILURES.counts
