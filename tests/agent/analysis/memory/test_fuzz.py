"""Damaged and twisted snapshots: whatever comes, an answer or one line, never a crash."""

from __future__ import annotations

import os
import pickle
import random
import sys
from pathlib import Path
from typing import Any

import pytest

from gpudiag.agent.analysis.memory.asked import Asked
from gpudiag.agent.analysis.memory.digesting import digest
from gpudiag.agent.analysis.memory.report import report
from gpudiag.agent.analysis.snapshots import opened, shaped
from gpudiag.agent.commands.leaks.page import page
from gpudiag.agent.commands.leaks.plain import plain
from gpudiag.probes.errors import UsageError
from tests.allocsim.job import Job
from tests.allocsim.stacks import MAIN

JUNK: tuple[Any, ...] = (
    None,
    -1,
    0,
    2**70,
    3.5,
    float("nan"),
    True,
    "x",
    "",
    [],
    {},
    (),
    [1],
    {"a": 1},
    b"\xff",
)
FEW, MANY = 60, 10_000


def sample() -> dict[str, Any]:
    job = Job(layers=1, width=64)
    job.hooks["end"].append(lambda job: job.kept.append(job.alloc(4096, MAIN)))
    return job.start().steps(10).snapshot()


def twisted(value: Any, chance: random.Random, rate: float) -> Any:
    """A copy with values replaced, keys lost and items doubled, each seldom."""
    if chance.random() < rate:
        return chance.choice(JUNK)
    if isinstance(value, dict):
        kept = {k: v for k, v in value.items() if chance.random() >= rate}
        return {key: twisted(item, chance, rate) for key, item in kept.items()}
    if isinstance(value, list | tuple):
        items = [twisted(item, chance, rate) for item in value if chance.random() >= rate]
        return items * 2 if chance.random() < rate else items
    return value


def survive(plain_objects: Any, name: str) -> None:
    try:
        found = digest(shaped(plain_objects, name), name)
    except UsageError as error:
        one_line(error)
        return
    if found.devices:
        made = report([(None, found), (None, found)], Asked())
        assert plain(made, 5)["version"] == 1
        assert page(made).startswith("<!doctype html>")


def one_line(error: UsageError) -> None:
    assert "\n" not in str(error)


def twist(seed: int) -> None:
    chance = random.Random(seed)
    base = SAMPLE if seed % 2 else SMALL
    survive(twisted(base, chance, chance.choice((0.0005, 0.005, 0.05))), f"seed {seed}")


def flip(seed: int, folder: Path) -> None:
    chance = random.Random(seed)
    data = bytearray(PICKLED)
    for _ in range(chance.choice((1, 3, 30))):
        data[chance.randrange(len(data))] = chance.randrange(256)
    path = folder / "a.pickle"
    path.write_bytes(data[: chance.randrange(len(data)) if seed % 3 == 0 else len(data)])
    try:
        found = opened(path)
    except UsageError as error:
        one_line(error)
        return
    survive(found, f"seed {seed}")


SAMPLE = sample()
SMALL = {**SAMPLE, "device_traces": [SAMPLE["device_traces"][0][:40]]}
PICKLED = pickle.dumps(SMALL, 4)


@pytest.mark.parametrize("seed", range(FEW))
def test_twisted_snapshots(seed):
    twist(seed)


@pytest.mark.parametrize("seed", range(FEW))
def test_flipped_bytes(seed, tmp_path):
    flip(seed, tmp_path)


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_ten_thousand_of_each(tmp_path):
    first = int(os.environ.get("GPUDIAG_FUZZ_SEED", random.randrange(2**32)))
    sys.stdout.write(f"GPUDIAG_FUZZ_SEED={first}\n")
    for seed in range(first, first + MANY):
        twist(seed)
        flip(seed, tmp_path)
