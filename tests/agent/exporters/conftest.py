"""The made-up nodes as fixtures."""

from __future__ import annotations

import pytest

from tests.agent.exporters.fake_view import FakeView, bare, incident


@pytest.fixture
def view() -> FakeView:
    """GPU 3 too hot, GPU 5 with an unknown XID, a blind spot."""
    return incident()


@pytest.fixture
def empty() -> FakeView:
    return bare()
