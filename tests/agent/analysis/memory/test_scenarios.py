"""Every planted cause of the simulator, from its series of snapshots and from its last one."""

from __future__ import annotations

import pytest

from gpudiag.agent.analysis.memory.asked import Asked
from gpudiag.agent.analysis.memory.causes import RETAINED, TEMPORARY
from tests.agent.analysis.memory.seam import judged, played
from tests.allocsim.scenarios import BENIGN, FRAGMENTS, LEAKS

TORCH_LEAKS = [make.__name__ for make in LEAKS if make.__name__ != "outside_torch"]
KINDS = {"flat": {"steady", "cannot tell"}, "warm-up": {"warm-up", "steady"}}


@pytest.mark.parametrize("name", TORCH_LEAKS)
@pytest.mark.parametrize("files", [slice(None), slice(0, 10), slice(-1, None)])
def test_a_leak_is_named_at_its_lines_with_its_rates(name, files):
    case, digests = played(name)
    part = judged(digests[files])
    leaks = {g.site.place if g.site.line else "": 0.0 for g in part.growth if g.leaks}
    for growth in part.growth:
        if growth.leaks:
            leaks[growth.site.place if growth.site.line else ""] += growth.rate
    assert part.verdict.kind == "leak"
    assert leaks == {line: pytest.approx(rate, rel=0.05) for line, rate in case.truth.lines.items()}


@pytest.mark.parametrize("name", TORCH_LEAKS)
def test_the_cause_of_a_leak_is_the_planted_one(name):
    case, digests = played(name)
    said = judged(digests).verdict
    # Before any gc a cycle looks like a list that is kept: then it must be named as open.
    wanted = RETAINED if case.truth.cause == TEMPORARY else case.truth.cause
    assert said.cause == wanted
    if case.truth.cause == TEMPORARY:
        assert TEMPORARY in {rival.cause for rival in said.rivals}
        assert any("gc.collect()" in missing for missing in said.missing)


def test_growth_outside_torch_needs_the_process_figures():
    case, digests = played("outside_torch")
    said = judged(digests, Asked(used=tuple(case.used))).verdict
    assert (said.kind, said.cause) == ("outside torch", case.truth.cause)
    assert judged(digests).verdict.kind == "steady"


@pytest.mark.parametrize("name", [make.__name__ for make in BENIGN])
@pytest.mark.parametrize("files", [slice(None), slice(-1, None)])
def test_what_only_looks_like_growth_is_no_leak(name, files):
    case, digests = played(name)
    part = judged(digests[files])
    assert part.verdict.kind in KINDS.get(case.truth.verdict, {case.truth.verdict})
    assert not [growth for growth in part.growth if growth.leaks]
    assert part.verdict.cause == case.truth.cause


@pytest.mark.parametrize("name", [make.__name__ for make in FRAGMENTS])
def test_a_request_that_fragments_fail_is_explained(name):
    case, digests = played(name)
    part = judged(digests)
    failed = next(request for request in part.requests if request.kind == "failed")
    assert (part.verdict.kind, part.verdict.cause) == ("fragmentation", case.truth.cause)
    assert (failed.size, failed.answer) == (case.truth.failed, "no")
