"""What the hooks' census tells is what the report reads."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from gpudiag.agent.analysis.memory.asked import Asked, Holder
from gpudiag.agent.analysis.memory.census import holders
from tests.agent.analysis.memory.seam import digested, judged

torch = pytest.importorskip("torch")

GROUP = {"shape": [], "dtype": "float32", "device": "cuda:0", "count": 1240, "bytes": 4960}


def census(*chains, grad_fn="MeanBackward0"):
    return {"groups": [{**GROUP, "grad_fn": grad_fn, "holders": list(chains)}], "tensors": 1240}


def test_a_chain_is_taken_apart():
    assert holders(census("history list in train.py:57")) == (
        Holder("history", "list", "train.py", 57, count=1240, bytes=4960, graph=True),
    )


@pytest.mark.parametrize(
    ("chain", "name", "kind", "file", "line"),
    [
        ("trainer.cache[3] dict in a b.py:9", "trainer.cache[3]", "dict", "a b.py", 9),
        ("x list in the interactive session", "x", "list", "the interactive session", 0),
        ("seen variable in built in", "seen", "variable", "built in", 0),
    ],
)
def test_names_with_words_in_them(chain, name, kind, file, line):
    (found,) = holders(census(chain))
    assert (found.name, found.kind, found.file, found.line) == (name, kind, file, line)


def test_an_event_is_as_good_as_its_fields():
    plain = census("history list in train.py:57", grad_fn="")
    assert holders({"type": "census", "fields": plain}) == holders(plain)
    assert not holders(plain)[0].graph


def test_who_holds_how_many_of_one_group_is_not_made_up():
    both = holders(census("a list in t.py:1", "b list in t.py:2"))
    assert [(h.name, h.count) for h in both] == [("a", 0), ("b", 0)]


def test_what_has_no_holder_names_nobody():
    assert holders(census("no Python object holds it")) == ()


@pytest.mark.parametrize("plain", [7, {"groups": 7}, {"groups": [{}]}, ["x"]])
def test_anything_else_is_no_census(plain):
    with pytest.raises(msgspec.ValidationError):
        holders(plain)


def test_a_real_run_is_told_by_the_name_of_its_list():
    """A CPU run: the profiler sees the growth, the census who holds it."""
    from torch.cuda._memory_viz import _profile_to_snapshot
    from torch.profiler import ProfilerActivity, profile

    from gpudiag.probes.torch.census import Census

    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.GELU(), torch.nn.Linear(64, 1))
    history = []
    activities = [ProfilerActivity.CPU]
    with profile(
        activities=activities, profile_memory=True, record_shapes=True, with_stack=True
    ) as prof:
        for _ in range(16):
            loss = model(torch.randn(128, 64)).square().mean()
            loss.backward(retain_graph=True)
            history.append(loss)
    line = test_a_real_run_is_told_by_the_name_of_its_list.__code__.co_firstlineno + 8
    told = json.loads(json.dumps(Census(torch).take({}, budget=30.0)))
    named = [h for h in holders(told) if h.name == "history"]
    assert [(h.kind, h.file, h.line, h.count, h.graph) for h in named] == [
        ("list", Path(__file__).name, line, 16, True)
    ]
    part = judged([digested(_profile_to_snapshot(prof))], asked=Asked(census=tuple(named)))
    assert part.verdict.kind == "leak"
    assert f"list `history` in {Path(__file__).name}:{line} holds 16 tensors with a graph" in (
        part.verdict.summary
    )
