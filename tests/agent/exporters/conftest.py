"""The made-up nodes as fixtures, and the application over them."""

from __future__ import annotations

import pytest

from gpudiag.agent.exporters.app import create_app
from gpudiag.agent.exporters.view import Snapshots
from tests.agent.exporters.client import Client
from tests.agent.exporters.fake_view import FakeView, bare, incident


@pytest.fixture
def view() -> FakeView:
    """GPU 3 too hot, GPU 5 with an unknown XID, a blind spot."""
    return incident()


@pytest.fixture
def empty() -> FakeView:
    return bare()


@pytest.fixture
def client(view: FakeView) -> Client:
    return Client(create_app(Snapshots(view)), base_url="http://localhost:9440")
