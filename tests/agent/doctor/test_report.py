from __future__ import annotations

import pytest

from gpudiag.agent.doctor.report import Line, exit_code, judged
from gpudiag.agent.findings.finding import Finding
from gpudiag.probes.catalog import Severity
from tests.agent.doctor.glance import finding

LINE = Line("gpu", "GPU 0", "ok", "41 °C")


def test_a_line_without_findings_stays() -> None:
    assert judged(LINE, []) == LINE


def test_the_worst_finding_colours_the_line_and_says_what_to_do() -> None:
    mild = finding("power-brake", "Slow.", severity="warning")
    line = judged(LINE, [mild, finding("gpu-lost", "Gone.")])
    assert line == Line("gpu", "GPU 0", "critical", "Gone. 41 °C", "Do this.")


def test_a_finding_without_action_points_to_its_runbook() -> None:
    assert (
        judged(LINE, [finding("gpu-lost", actions=())]).todo
        == "gpudiag runbook 'gpu-lost#gpu-lost'"
    )


def test_a_worse_line_is_not_made_better() -> None:
    bad = Line("driver", "NVML", "critical", "It hangs.")
    assert judged(bad, [finding("driver-mismatch", severity="warning")]) == bad


@pytest.mark.parametrize("changes", [{"state": "pending"}, {"explained_by": "gpu-xid"}])
def test_what_is_young_or_explained_is_a_note_and_fails_nothing(changes: dict[str, str]) -> None:
    said = finding("gpu-lost", **changes)
    line = judged(LINE, [said])
    assert line.state == "note"
    assert exit_code([line], [said], "warning") == 0


@pytest.mark.parametrize(("fail_on", "code"), [("info", 1), ("warning", 1), ("critical", 0)])
def test_exit_code_follows_fail_on(fail_on: Severity, code: int) -> None:
    assert exit_code([Line("kernel log", "XID 79", "warning", "")], [], fail_on) == code


def test_a_finding_that_no_line_shows_fails_too() -> None:
    said: list[Finding] = [finding("cpu-pressure")]
    assert exit_code([LINE], said, "critical") == 1


def test_blind_is_not_bad() -> None:
    assert (
        exit_code(
            [Line("rights", "kmsg", "unknown", ""), Line("gpu", "x", "absent", "")], [], "info"
        )
        == 0
    )
