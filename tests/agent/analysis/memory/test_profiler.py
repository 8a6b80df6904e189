"""Real CPU runs of torch, through its profiler and its own conversion to a snapshot."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpudiag.agent.analysis.memory import categories
from tests.agent.analysis.memory.seam import digested, judged

torch = pytest.importorskip("torch")


def recorded(*, keep: bool, steps: int = 16) -> dict[str, Any]:
    """The snapshot of a small training loop; with `keep` it appends each loss with its graph."""
    from torch.cuda._memory_viz import _profile_to_snapshot
    from torch.profiler import ProfilerActivity, profile

    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.GELU(), torch.nn.Linear(64, 1))
    optimizer = torch.optim.AdamW(model.parameters())
    history = []
    with profile(
        activities=[ProfilerActivity.CPU], profile_memory=True, record_shapes=True, with_stack=True
    ) as prof:
        for _ in range(steps):
            loss = model(torch.randn(128, 64)).square().mean()
            loss.backward(retain_graph=keep)
            optimizer.step()
            optimizer.zero_grad()
            if keep:
                history.append(loss)
    found: dict[str, Any] = _profile_to_snapshot(prof)
    return found


@pytest.fixture(scope="module")
def leaking():
    return digested(recorded(keep=True))


def test_categories_of_the_profiler_are_taken(leaking):
    parts = {hold.category for hold in leaking.devices[0].holds}
    assert categories.ACTIVATIONS in parts or categories.OTHER in parts


def test_a_kept_graph_leaks_at_a_line_of_this_file(leaking):
    part = judged([leaking])
    assert part.verdict.kind == "leak"
    leaks = [growth.site for growth in part.growth if growth.leaks]
    assert {Path(site.file).name for site in leaks if site.line} == {Path(__file__).name}


def test_the_same_loop_that_keeps_nothing_does_not_leak():
    assert judged([digested(recorded(keep=False))]).verdict.kind != "leak"
