from __future__ import annotations

import pytest

from tests.kubeserver import kube


@pytest.fixture
def cluster(tmp_path):
    with kube(tmp_path) as double:
        yield double
