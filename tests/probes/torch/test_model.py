from __future__ import annotations

import gc
import weakref

import torch
from torch import nn

from gpudiag.probes.torch import find, setup_found
from gpudiag.probes.torch.inventory import inventory
from gpudiag.probes.torch.model import Model
from gpudiag.probes.torch.optimizers import Optimizers


class Block(nn.Module):
    def __init__(self, recompute: bool) -> None:
        super().__init__()
        self.gradient_checkpointing = recompute
        self.linear = nn.Linear(8, 8)


def trained() -> tuple[nn.Module, torch.optim.Optimizer]:
    model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8, dtype=torch.bfloat16))
    optimizer = torch.optim.Adam(model.parameters())
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    return model, optimizer


def test_bytes_are_told_by_kind_and_dtype() -> None:
    model, optimizer = trained()
    found = inventory([model], [optimizer])
    assert found["parameter", "float32", "local"] == 72 * 4
    assert found["parameter", "bfloat16", "global"] == 72 * 2
    assert found["gradient", "float32", "local"] == 72 * 4
    assert found["optimizer", "bfloat16", "local"] == 2 * 72 * 2


def test_frozen_parameters_count_and_tied_ones_once() -> None:
    model = nn.Linear(8, 8, bias=False).requires_grad_(False)
    model.tied = model.weight
    assert inventory([model], []) == {
        ("parameter", "float32", "local"): 256, ("parameter", "float32", "global"): 256,
    }  # fmt: skip


def test_the_outermost_trained_module_is_found() -> None:
    model, _ = trained()
    other = nn.Linear(3, 3)
    found = find.trained(find.modules(torch), {id(p) for p in model.parameters()})
    assert found == [model]
    assert other not in found


def test_it_looks_and_keeps_nothing_alive() -> None:
    model, optimizer = trained()
    optimizers = Optimizers(lambda: None)
    optimizers.stepped(optimizer, (), {})
    looking = Model(torch, optimizers)
    looking.look()
    assert looking.modules() == [model]
    assert looking.config == {"sharding": "none", "optimizer": "Adam", "precision": "fp32"}
    watched = weakref.ref(model)
    del model, optimizer
    gc.collect()
    assert watched() is None
    assert looking.totals() == {}


def test_autocast_is_the_precision() -> None:
    looking = Model(torch, Optimizers(lambda: None))
    entered = looking.autocast(torch.autocast.__enter__)
    context = torch.autocast("cpu", dtype=torch.bfloat16)
    entered(context)
    context.__exit__(None, None, None)
    model = nn.Linear(2, 2)
    looking.name(model)
    looking.look()
    assert looking.config["precision"] == "bf16"


def test_autocast_that_is_off_is_no_precision() -> None:
    looking = Model(torch, Optimizers(lambda: None))
    context = torch.autocast("cpu", dtype=torch.bfloat16, enabled=False)
    looking.autocast(torch.autocast.__enter__)(context)
    context.__exit__(None, None, None)
    model = nn.Linear(2, 2)
    looking.name(model)
    looking.look()
    assert looking.config["precision"] == "fp32"


def test_recomputation_is_told_only_where_something_tells() -> None:
    assert setup_found.config([Block(True)], [], None)["recompute"] == "full"
    assert setup_found.config([Block(False)], [], None)["recompute"] == "off"
    assert "recompute" not in setup_found.config([nn.Linear(2, 2)], [], None)


def test_a_told_model_is_given_after_the_first_timed_step_and_then_once_a_minute() -> None:
    now = [0.0]
    model = nn.Linear(2, 2)
    telling = Model(torch, Optimizers(lambda: None), clock=lambda: now[0])
    telling.name(model)
    assert telling.take(0) == []
    assert telling.take(1)
    now[0] = 59.0
    assert telling.take(1) == []
    now[0] = 61.0
    assert telling.take(1)
