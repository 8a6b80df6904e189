from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest
import torch

from gpudiag.probes.torch.census import Census, headline

SIZE = 97
kept_global: list[torch.Tensor] = []


class Trainer:
    def __init__(self) -> None:
        self.cache: dict[int, torch.Tensor] = {}


def group(found: dict[str, Any], size: int = SIZE) -> dict[str, Any]:
    """The group of one-dimensional tensors of this size."""
    return next(g for g in found["groups"] if g["shape"] == [size])


def census() -> dict[str, Any]:
    return Census(torch).take({}, budget=30.0)


def test_a_list_in_a_function_is_named() -> None:
    history = [torch.zeros(SIZE) for _ in range(500)]
    found = group(census())
    assert (found["count"], found["bytes"]) == (500, 500 * SIZE * 4)
    assert len(found["holders"]) == 1
    assert found["holders"][0].startswith("history list in test_census.py:")
    assert len(history) == 500


def test_the_place_is_the_line_of_the_assignment() -> None:
    history = [torch.zeros(SIZE) for _ in range(500)]
    line = test_the_place_is_the_line_of_the_assignment.__code__.co_firstlineno + 1
    assert group(census())["holders"] == [f"history list in test_census.py:{line}"]
    del history


def test_an_attribute_is_named_with_its_owner() -> None:
    trainer = Trainer()
    trainer.cache.update({n: torch.zeros(SIZE) for n in range(500)})
    (holder, *_) = group(census())["holders"]
    assert holder.startswith("trainer.cache[")
    assert "dict in test_census.py:" in holder


def test_a_global_is_named() -> None:
    kept_global.extend(torch.zeros(SIZE) for _ in range(500))
    try:
        (holder,) = group(census())["holders"]
        assert holder.startswith("kept_global list in test_census.py:")
    finally:
        kept_global.clear()


def test_a_hook_that_keeps_outputs_is_named_by_what_it_fills() -> None:
    seen: list[torch.Tensor] = []
    model = torch.nn.Linear(4, SIZE)
    model.register_forward_hook(lambda _module, _args, output: seen.append(output[0]))
    for _ in range(500):
        model(torch.zeros(1, 4))
    found = group(census())
    assert found["holders"][0].startswith("seen list in test_census.py:")
    assert found["grad_fn"] == "SelectBackward0"


def test_what_only_a_graph_holds_is_said_to_be_in_cpp() -> None:
    weight = torch.zeros(4, SIZE, requires_grad=True)
    outputs = [(torch.ones(SIZE) * weight).sum() for _ in range(300)]
    assert "held in C++" in group(census())["holders"][0]
    assert len(outputs) == 300


def test_tensors_of_the_model_need_no_search() -> None:
    kept = [torch.zeros(SIZE) for _ in range(500)]
    found = Census(torch).take({id(t): "the model's parameters" for t in kept}, 30.0)
    assert group(found)["holders"] == ["the model's parameters"]


def test_growth_is_since_the_census_before() -> None:
    counting = Census(torch)
    kept = [torch.zeros(SIZE) for _ in range(500)]
    assert group(counting.take({}, 30.0))["grown"] is None
    kept += [torch.zeros(SIZE) for _ in range(40)]
    found = counting.take({}, 30.0)
    assert group(found)["grown"] == 40
    assert headline(found).startswith(f"540 (+40) float32 {SIZE} on cpu: held by kept list")


def test_views_of_one_storage_count_its_bytes_once() -> None:
    base = torch.zeros(SIZE * 1000)
    views = [base[n * SIZE : (n + 1) * SIZE] for n in range(1000)]
    assert group(census())["bytes"] <= SIZE * 1000 * 4
    assert len(views) == 1000


def test_it_keeps_nothing_alive() -> None:
    kept = [torch.zeros(SIZE) for _ in range(500)]
    watched = weakref.ref(kept[-1])
    counting = Census(torch)
    counting.take({}, 30.0)
    del kept
    assert watched() is None
    gc.collect()


def test_a_local_that_is_deleted_after_a_census_goes_at_once() -> None:
    big = torch.zeros(SIZE)
    watched = weakref.ref(big)
    census()
    del big
    assert watched() is None


def test_time_is_bounded_and_the_cut_is_told() -> None:
    kept = [torch.zeros(SIZE) for _ in range(500)]
    found = Census(torch).take({}, budget=0.0)
    assert found["cut_short"]
    assert len(kept) == 500


@pytest.mark.parametrize("kind", ["meta", "sparse"])
def test_tensors_without_a_storage_are_passed_over(kind: str) -> None:
    odd = torch.zeros(SIZE, device="meta") if kind == "meta" else torch.zeros(SIZE).to_sparse()
    found = census()
    assert found["cut_short"] is False
    assert odd.shape == (SIZE,)
