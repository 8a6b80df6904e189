import argparse
import gc
import importlib
import re
import time

import pytest
import torch

from tests.examples.launching import EXAMPLES


@pytest.fixture
def misbehave(monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLES))
    yield importlib.import_module("misbehave")
    gc.enable()


def told(misbehave, *flags):
    parser = argparse.ArgumentParser()
    misbehave.add_flags(parser)
    return parser.parse_args(flags)


def test_the_readme_names_every_flag(misbehave):
    text = (EXAMPLES / "README.md").read_text()
    flags = {f"--{name.replace('_', '-')}" for name in vars(told(misbehave))}
    assert flags <= set(re.findall(r"--[a-z-]+", text))


def seconds(misbehave, where, rank):
    """How long forward and backward of a slow layer take."""
    layer = torch.nn.Linear(4, 4)
    flags = ("--slow-rank", "1", "--slow-where", where, "--slow-ms", "80")
    misbehave.Misbehaviour(told(misbehave, *flags), rank).attach(layer)
    start = time.perf_counter()
    loss = layer(torch.ones(2, 4)).sum()
    middle = time.perf_counter()
    loss.backward()
    return middle - start, time.perf_counter() - middle


def test_the_slow_rank_alone_is_slow_where_it_should_be(misbehave):
    assert seconds(misbehave, "forward", 1)[0] >= 0.08
    assert seconds(misbehave, "backward", 1)[1] >= 0.08
    # The quickest of several: a busy machine may hold up any of them, a fault holds up all.
    assert min(sum(seconds(misbehave, "forward", 0)) for _ in range(20)) < 0.08


@pytest.mark.parametrize(("leak", "kept"), [("losses", 5), ("cache", 5), ("cycle", 5), (None, 0)])
def test_a_leak_keeps_a_tensor_of_every_step(misbehave, leak, kept):
    gc.collect()
    faults = misbehave.Misbehaviour(told(misbehave, *(("--leak", leak) if leak else ())), 0)
    before = tensors()
    for step in range(1, 6):
        faults.step(step, torch.ones(1))
    assert tensors() - before == kept


def tensors():
    return sum(type(found) is torch.Tensor for found in gc.get_objects())
