from __future__ import annotations

import pytest

from gpudiag.agent.analysis.budget.feasible import objection
from gpudiag.agent.analysis.budget.layout import Layout
from gpudiag.agent.analysis.budget.model import Shape, read
from gpudiag.agent.analysis.budget.verdict import judge
from gpudiag.probes.errors import UsageError
from tests.agent.analysis.budget import configs

LAYOUTS = [
    (configs.MIXTRAL, {"ep": 8}, "must divide dp 1"),
    (configs.MIXTRAL, {"dp": 16, "ep": 16}, "experts, which are 8"),
    (configs.LLAMA2_7B, {"dp": 8, "ep": 8}, "experts, which are 0"),
    (configs.LLAMA2_7B, {"tp": 3}, "must divide the model's 32 attention heads"),
    (configs.LLAMA2_7B, {"pp": 33}, "more stages than the model's 32 layers"),
]


@pytest.mark.parametrize(("config", "how", "why"), LAYOUTS)
def test_what_cannot_be_spread_is_refused(config, how, why):
    with pytest.raises(UsageError, match=why):
        judge(read(config), Layout(**how), 80 * 2.0**30)


def test_nothing_is_against_what_is_done_every_day():
    assert objection(read(configs.DEEPSEEK_V3), Layout(dp=128, ep=64, pp=16)) is None
    assert objection(Shape(given=7e9), Layout(tp=3, pp=100)) is None


def test_no_change_leads_to_what_cannot_be():
    odd = {**configs.LLAMA2_7B, "num_attention_heads": 25, "hidden_size": 6400}
    said = judge(read(odd), Layout(), 16 * 2.0**30)
    assert {change.layout.tp for change in said.changes} == {1}
    assert max(change.layout.pp for change in said.changes) <= 32
