"""The table of GPUs: what stands in the column of errors."""

from __future__ import annotations

import pytest

from gpudiag.agent.exporters.page import gpus
from gpudiag.agent.exporters.view import Snapshots
from gpudiag.probes import labels
from tests.agent.exporters.fake_view import FakeView, uuid


def errors(view: FakeView, scope: str, count: float) -> str:
    ecc = labels(uuid=uuid(1), gpu="1", kind="uncorrected", scope=scope)
    view.readings.append(("gpudiag_gpu_ecc_errors_total", ecc, view.time, count))
    row = gpus.rows(Snapshots(view).get(), view, {uuid(1): "1"})[1]
    return next(cell.text for cell in row.cells if cell.column == "Errors")


@pytest.mark.parametrize(
    ("scope", "count", "said"),
    [
        ("volatile", 2.0, "2 uncorrectable ECC"),
        ("volatile", 0.0, "none seen"),
        ("aggregate", 2.0, "none seen"),
    ],
)
def test_only_memory_errors_since_the_last_reset_count(
    view: FakeView, scope: str, count: float, said: str
) -> None:
    assert errors(view, scope, count) == said
