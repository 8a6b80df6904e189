"""The table of GPUs: what stands in the column of errors."""

from __future__ import annotations

import msgspec
import pytest

from gpudiag.agent.exporters.page import gpus
from gpudiag.agent.exporters.view import Snapshots
from gpudiag.agent.rules.contract import subject
from gpudiag.probes import labels
from tests.agent.exporters.fake_view import FakeView, uuid


def errors(view: FakeView, scope: str, count: float) -> str:
    ecc = labels(uuid=uuid(1), gpu="1", kind="uncorrected", scope=scope)
    view.readings.append(("gpudiag_gpu_ecc_errors_total", ecc, view.time, count))
    row = next(r for r in gpus.rows(Snapshots(view).get(), view, {}) if r.uuid == uuid(1))
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


def order(view: FakeView) -> list[str]:
    snapshot = Snapshots(view).get()
    return [row.index for row in gpus.rows(snapshot, view, gpus.numbers(snapshot))]


def test_gpus_with_findings_come_first_then_those_with_a_bad_cell(view: FakeView) -> None:
    on_seven = msgspec.structs.replace(view.found[1], subject=subject(uuid=uuid(7)))
    view.found = [on_seven]
    assert order(view) == ["7", "3", "5", "0", "1", "2", "4", "6"]


def test_a_row_shows_the_worst_finding_that_is_not_explained(view: FakeView) -> None:
    hot = view.found[1]
    worst = msgspec.structs.replace(hot, symptom="gpu-xid", severity="critical")
    folded = msgspec.structs.replace(worst, symptom="gpu-lost", explained_by=worst.id)
    view.found = [folded, hot, worst]
    assert gpus.rows(Snapshots(view).get(), view, {})[0].trouble == worst


@pytest.mark.parametrize("change", [{"state": "resolved"}, {"severity": "info"}])
def test_what_is_over_or_mere_information_marks_no_row(
    view: FakeView, change: dict[str, str]
) -> None:
    view.found = [msgspec.structs.replace(view.found[1], **change)]
    assert not any(row.trouble for row in gpus.rows(Snapshots(view).get(), view, {}))
