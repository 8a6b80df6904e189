from __future__ import annotations

import pytest

from gpudiag.agent.analysis.budget.items import Item
from gpudiag.agent.analysis.budget.layout import Layout
from gpudiag.agent.analysis.budget.model import Shape, read
from gpudiag.agent.analysis.budget.verdict import judge
from tests.agent.analysis.budget import configs

H100 = 80 * 2.0**30


def words(said):
    return [change.words for change in said.changes]


def test_what_fits_needs_no_change():
    said = judge(read(configs.LLAMA2_7B), Layout(serving=True), H100)
    assert (said.fits, said.changes) == (True, ())
    assert said.spare > 0


def test_a_smaller_batch_comes_first():
    layout = Layout(dp=8, zero=3, micro_batch=8, sequence=4096, recompute="selective")
    said = judge(read(configs.LLAMA2_7B), layout, H100)
    assert said.fits is False
    assert words(said)[0] == "micro-batch 8 -> 4, with twice the accumulation"
    assert said.changes[-1].fits


def test_changes_stop_where_it_fits_and_each_is_worth_it():
    said = judge(read(configs.LLAMA3_70B), Layout(dp=64, micro_batch=2), H100)
    totals = [said.total, *(change.total for change in said.changes)]
    assert totals == sorted(totals, reverse=True)
    assert [change.fits for change in said.changes[:-1]] == [False] * (len(said.changes) - 1)
    assert said.changes[-1].fits


def test_sharding_comes_after_recomputation_and_before_more_cards():
    said = words(judge(read(configs.LLAMA2_7B), Layout(dp=8, sequence=4096), H100))
    order = [next(i for i, w in enumerate(said) if part in w) for part in ("recomputation", "ZeRO")]
    assert order == sorted(order)
    assert not any("GPUs" in word for word in said)


def test_serving_limits_the_cache_first():
    layout = Layout(serving=True, kv_length=32768, concurrency=64)
    said = judge(read(configs.LLAMA2_7B), layout, H100)
    assert words(said)[0] == "requests at a time 64 -> 32"


def test_what_is_not_known_is_not_called_fitting():
    assert judge(Shape(given=1e9), Layout(), H100).fits is None
    assert judge(Shape(given=70e9), Layout(), H100).fits is False


@pytest.mark.parametrize("serving", [False, True])
def test_every_item_says_how_long_it_lives(serving):
    for item in judge(read(configs.MIXTRAL), Layout(serving=serving), H100).items:
        assert isinstance(item, Item)
        assert item.lives
        assert item.released


def test_a_change_is_not_called_fitting_where_an_item_is_not_known():
    said = judge(Shape(given=70e9), Layout(dp=64), H100)
    assert [change.fits for change in said.changes] == [False] * (len(said.changes) - 1) + [None]
