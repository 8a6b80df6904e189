"""What one evaluation costs: a batch taken in, then every rule; of GPUs alone and a full node."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from benchmarks import jobs
from benchmarks.check import Check
from benchmarks.replay_day import AT, START, Day
from gpudiag.agent.engine import Engine
from gpudiag.agent.replay import fresh_engine
from gpudiag.agent.rules import RULES
from gpudiag.agent.rules.contract import Limits, Rule, Verdict
from gpudiag.agent.window import Window
from gpudiag.probes import Sample

HISTORY = 1000
"""Batches before measuring: almost three hours at 10 s, more than the window holds raw."""

MEASURED = 300
MAX_MS = 7.0
MAX_WHOLE_MS = 15.0


def measure() -> list[Check]:
    gpus = [(key, values) for key, _, values in Day().columns()]
    whole = [*gpus, *jobs.columns(len(gpus[0][1]))]
    checks = _measured("8 GPUs", gpus, MAX_MS)
    return [*checks, *_measured("8 GPUs, 8 ranks, 2 servers", whole, MAX_WHOLE_MS)]


def _measured(what: str, columns: Sequence[jobs.Column], limit: float) -> list[Check]:
    spent: dict[str, float] = defaultdict(float)
    engine = fresh_engine({name: _timed(name, rule, spent) for name, rule in RULES.items()})
    cost = _feed(engine, columns, spent)
    each = sorted(((1e3 * taken / MEASURED, name) for name, taken in spent.items()), reverse=True)
    note = f"{what}, {len(columns)} series, {len(RULES)} rules; mean of {MEASURED}"
    return [
        Check("rules and ingest, an evaluation", cost, "ms CPU", limit, note),
        *(Check(f"  {name}", one, "ms CPU") for one, name in each),
    ]


def _timed(name: str, rule: Rule, spent: dict[str, float]) -> Rule:
    def check(window: Window, limits: Limits) -> list[Verdict]:
        began = time.process_time()
        verdicts = list(rule.check(window, limits))
        spent[name] += time.process_time() - began
        return verdicts

    return replace(rule, check=check)


def _feed(engine: Engine, columns: Sequence[jobs.Column], spent: dict[str, float]) -> float:
    """Hours of history, then what is measured: milliseconds an evaluation."""
    keys = [key for key, _ in columns]
    rows = np.stack([values for _, values in columns], axis=1)[: HISTORY + MEASURED].tolist()
    taken = 0.0
    for number, (at, row) in enumerate(zip((START + AT).tolist(), rows, strict=False)):
        if number == HISTORY:
            taken = 0.0
            spent.clear()
        batch = [Sample(*key, at, value) for key, value in zip(keys, row, strict=True)]
        began = time.process_time()
        engine.ingest(batch)
        engine.evaluate(at)
        taken += time.process_time() - began
    return 1e3 * taken / MEASURED
