from __future__ import annotations

import re

import msgspec
import pytest

from gpudiag.agent.findings.finding import Finding
from gpudiag.agent.recording.expectations import Expect, Expectations
from gpudiag.agent.replay import Blind, Run
from gpudiag.agent.replay_check import check
from gpudiag.probes.catalog import Severity

GPU = {"uuid": "GPU-1"}


def _finding(
    cause: str = "xid-79", *, severity: Severity = "critical", folded: str = ""
) -> Finding:
    return Finding(
        symptom="gpu-xid",
        subject=(("uuid", "GPU-1"), ("node", "a")),
        cause=cause,
        confidence=0.9,
        severity=severity,
        state="firing",
        since=100.0,
        summary="XID 79",
        raised_at=120.0,
        explained_by=folded,
    )


RUN = Run((_finding(),), (Blind("gpu-lost", 30.0, ("a driver",)),))

MET = [
    Expect("gpu-xid"),
    Expect("gpu-xid", ("xid-45", "xid-79"), GPU, 120.0),
    Expect("gpu-lost", state="unknown", by=30.0),
]


@pytest.mark.parametrize("expect", MET)
def test_met(expect: Expect) -> None:
    assert check(Expectations((expect,)), RUN) == []


UNMET = [
    (Expect("gpu-xid", ("xid-45",)), "with cause xid-45 to be firing, but there was gpu-xid{"),
    (Expect("gpu-xid", subject={"uuid": "GPU-2"}), "expected gpu-xid{uuid=GPU-2} to be firing"),
    (
        Expect("gpu-xid", by=119.0),
        "raised by 1m59s, but there was .* firing at 2m",
    ),
    (Expect("gpu-xid", state="resolved"), "to be resolved, but there was"),
    (Expect("thermal-throttle"), "but there was nothing of this symptom"),
    (Expect("gpu-lost"), "to be firing, but there was unknown"),
    (Expect("gpu-lost", state="unknown", by=29.0), "to be unknown, raised by 29s"),
]


@pytest.mark.parametrize(("expect", "message"), UNMET)
def test_unmet_says_what_there_was_instead(expect: Expect, message: str) -> None:
    (difference,) = check(Expectations((expect,)), RUN)
    assert re.search(message, difference)


def test_by_bounds_when_it_was_raised_also_where_it_was_resolved() -> None:
    resolved = msgspec.structs.replace(_finding(), state="resolved", resolved_at=900.0)
    wanted = Expectations((Expect("gpu-xid", by=120.0, state="resolved"),))
    assert check(wanted, Run((resolved,), ())) == []


@pytest.mark.parametrize("quiet", ["gpu-xid", "*"])
def test_a_finding_breaks_the_quiet(quiet: str) -> None:
    (difference,) = check(Expectations(quiet=frozenset({quiet})), RUN)
    assert difference.startswith("expected quiet, but there was gpu-xid{uuid=GPU-1,node=a}")


def test_another_symptom_does_not_break_the_quiet() -> None:
    assert check(Expectations(quiet=frozenset({"gpu-lost"})), RUN) == []


@pytest.mark.parametrize("finding", [_finding(severity="info"), _finding(folded="gpu-lost")])
def test_info_and_folded_findings_keep_the_quiet_and_meet_an_expectation(finding: Finding) -> None:
    wanted = Expectations((Expect("gpu-xid"),), frozenset({"*"}))
    assert check(wanted, Run((finding,), ())) == []


def test_a_fold_that_comes_later_counts() -> None:
    run = Run((_finding(), _finding(folded="gpu-lost")), ())
    assert check(Expectations(quiet=frozenset({"*"})), run) == []


def test_a_cause_it_had_for_a_while_meets_an_expectation() -> None:
    run = Run((_finding("xid-45"), _finding()), ())
    assert check(Expectations((Expect("gpu-xid", ("xid-45",)),)), run) == []
