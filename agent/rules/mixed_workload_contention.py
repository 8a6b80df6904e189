"""Several jobs on one GPU squeeze each other: for its memory, its time, or beyond their quota."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from gpudiag.agent.rules import _latency, _serving
from gpudiag.agent.rules._gpus import gpu
from gpudiag.agent.rules.contract import (
    Diagnosis,
    Evidence,
    Healthy,
    Limits,
    Rival,
    Rule,
    Suggestion,
    Threshold,
    Verdict,
)
from gpudiag.agent.window import Point, Window

PROCESS = "gpudiag_gpu_process_memory_bytes"
TOTAL = "gpudiag_gpu_memory_total_bytes"
USED = "gpudiag_gpu_memory_used_bytes"
BUSY = "gpudiag_gpu_utilization_ratio"
RETRIES = "gpudiag_torch_alloc_retries_total"
OOMS = "gpudiag_torch_ooms_total"
STEP = "gpudiag_train_step_seconds"
BUDGET = "gpudiag_budget_bytes"
INFO = "gpudiag_train_info"
_QUOTA = re.compile(
    r"quota.{0,40}exceed|exceed.{0,60}(?:quota|memory limit)|over (?:its|the) (?:gpu )?(?:memory )?"
    r"(?:quota|limit)|MPS.{0,60}(?:memory|limit)|vgpu.{0,40}(?:oom|limit)",
    re.IGNORECASE,
)
_OOM = re.compile(r"CUDA out of memory|OutOfMemoryError|CUDA_ERROR_OUT_OF_MEMORY")


class _Sign(NamedTuple):
    """One way in which somebody suffers: for memory or for time, in words and as evidence."""

    kind: str
    words: str
    evidence: Evidence


def check(window: Window, limits: Limits) -> Iterator[Verdict]:
    """Judge every GPU of which the driver names the processes, or its jobs themselves do."""
    by_gpu: dict[str, list[Point]] = {}
    for point in window.latest(PROCESS):
        by_gpu.setdefault(point.labels.get("uuid", ""), []).append(point)
    for uuid in _shared_by_jobs(window):
        by_gpu.setdefault(uuid, [])
    for uuid, held in by_gpu.items():
        sharers = _sharers(window, limits, uuid, held)
        if len(sharers) < 2:
            yield Healthy(gpu(uuid))
            continue
        said = _judge(window, limits, uuid, held, sharers)
        yield said if said is not None else Healthy(gpu(uuid))


def _shared_by_jobs(window: Window) -> set[str]:
    """GPUs on which ranks of two jobs say that they run."""
    jobs: dict[str, set[str]] = {}
    for point in window.latest(INFO):
        jobs.setdefault(point.labels.get("uuid", ""), set()).add(point.labels.get("job", ""))
    return {uuid for uuid, names in jobs.items() if uuid and len(names) > 1}


def _sharers(window: Window, limits: Limits, uuid: str, held: list[Point]) -> list[str]:
    """Who holds more than a bare context of it: `name (pid)`, or the jobs that say so."""
    total = window.value(TOTAL, uuid=uuid) or sum(p.value for p in held) or 1.0
    large = [p for p in held if p.value >= limits["bare"] * total]
    named = [f"{p.labels.get('process', 'pid')} ({p.labels.get('pid', '?')})" for p in large]
    if named:
        return named
    points = window.latest(INFO, uuid=uuid)
    return sorted({p.labels.get("job", "") for p in points})


def _judge(
    window: Window, limits: Limits, uuid: str, held: list[Point], sharers: list[str]
) -> Diagnosis | None:
    total = window.value(TOTAL, uuid=uuid)
    used = window.value(USED, uuid=uuid) or sum(p.value for p in held)
    full = used / total if total else None
    busy = window.value(BUSY, uuid=uuid)
    signs = [s for s in _signs(window, limits, held) if s is not None]
    signs = [
        s
        for s in signs
        if s.kind == "quota"
        or (s.kind == "memory" and (full is None or full >= limits["full"]))
        or (s.kind == "time" and (busy is None or busy >= limits["busy"]))
    ]
    if not signs:
        return None
    facts = [Evidence(PROCESS, p.value, "bytes", labels=dict(p.labels)) for p in held[:6]]
    if full is not None:
        facts.append(Evidence(USED, round(full, 3), "ratio", f"< {limits['full']:g}"))
    words = "; ".join(dict.fromkeys(s.words for s in signs))
    kinds = {s.kind for s in signs}
    return Diagnosis(
        gpu(uuid),
        "mixed-workload-contention",
        0.9 if len(kinds) > 1 or "quota" in kinds else 0.8,
        f"{len(sharers)} jobs share GPU {uuid} ({', '.join(sharers[:4])}) and squeeze each other:"
        f" {words}.",
        (*(s.evidence for s in signs), *facts),
        rivals=(Rival("memory-held-by-others", "all of them are alive and at work"),),
        actions=_ACTIONS,
    )


def _signs(window: Window, limits: Limits, held: list[Point]) -> Iterator[_Sign | None]:
    yield _words(window, limits)
    yield _retried(window, limits)
    yield _over_budget(window, held)
    yield _slower_steps(window, limits)
    yield from _slower_serving(window, limits)


def _words(window: Window, limits: Limits) -> _Sign | None:
    for event in reversed(window.events(limits["recent"])):
        kind = event.source.partition(":")[0]
        if kind in ("kmsg", "action"):
            continue
        if event.type == "oom" or _told(_OOM, event.line):
            return _Sign("memory", "one ran out of memory", Evidence(event.source, event.line))
        if _told(_QUOTA, event.line):
            return _Sign("quota", event.line.strip()[:160], Evidence(event.source, event.line))
    return None


@lru_cache(maxsize=40_000)
def _told(pattern: re.Pattern[str], line: str) -> bool:
    return pattern.search(line) is not None


def _retried(window: Window, limits: Limits) -> _Sign | None:
    for metric in (OOMS, RETRIES):
        rose = sum(p.value for p in window.increase(metric, limits["recent"]))
        if rose >= limits["retries"] or (metric == OOMS and rose):
            words = f"{rose:.0f} allocations failed or were tried again"
            return _Sign("memory", words, Evidence(metric, rose, "in 10 min", "0"))
    for thrown in window.increase(_serving.PREEMPTED, limits["recent"]):
        if thrown.value >= limits["thrown"]:
            words = f"{thrown.value:.0f} requests were thrown out of a batch"
            fact = Evidence(_serving.PREEMPTED, thrown.value, "in 10 min", "0", thrown.labels)
            return _Sign("memory", words, fact)
    return None


def _over_budget(window: Window, held: list[Point]) -> _Sign | None:
    """A process that holds more than any budget on this node allows for."""
    budgets = [p.value for p in window.latest(BUDGET, kind="total")]
    if len(budgets) < 2 or not held:
        return None
    largest = max(held, key=lambda p: p.value)
    if largest.value <= 1.1 * max(budgets):
        return None
    words = f"{largest.labels.get('process', 'one')} holds more than its budget"
    fact = Evidence(PROCESS, largest.value, "bytes", f"{max(budgets):.3g}", dict(largest.labels))
    return _Sign("quota", words, fact)


def _slower_steps(window: Window, limits: Limits) -> _Sign | None:
    for series in window.minutes(STEP, _latency.LOOK_BACK, "mean"):
        when = _latency.spell(series.times, _latency.SPANS[0])
        if when is None:
            continue
        past = series.values[series.times <= when.last]
        now = series.values[series.times >= when.since]
        if len(past) < 3 or len(now) < 3:
            continue
        usual, slow = float(np.median(past)), float(np.quantile(now, 0.25))
        if slow >= limits["slower"] * usual and slow > float(np.quantile(past, 0.95)):
            job = series.labels.get("job", "training")
            words = f"steps of {job} take {slow / usual:.1f} times as long"
            fact = Evidence(STEP, round(slow, 4), "seconds", f"{usual:.4g}", series.labels)
            return _Sign("time", words, fact)
    return None


def _slower_serving(window: Window, limits: Limits) -> Iterator[_Sign]:
    metrics = (_latency.BETWEEN, _latency.TTFT, _latency.REQUEST)
    counted = tuple(f"{metric}_count" for metric in metrics)
    for server in _serving.servers(window, (*_serving.SIGNS_OF_LIFE, *counted)):
        for metric in metrics:
            moved = _latency.shift(window, metric, server)
            if moved is not None and moved.middle.moved(limits["slower"]):
                times = moved.middle.now / max(moved.middle.usual, 1e-9)
                words = f"requests of {server.name or 'the server'} take {times:.1f} times as long"
                fact = Evidence(metric, moved.middle.now, "seconds", f"{moved.middle.usual:.3g}")
                yield _Sign("time", words, fact)
                break


_ACTIONS = (
    Suggestion("notify", "Tell both owners: who came last, and what each of them may take."),
    Suggestion("degrade", "Give each its share: a MIG slice, MPS limits, a smaller fraction."),
    Suggestion("drain", "Move the one that serves nobody to another GPU."),
)

RULE = Rule(
    check=check,
    reads=frozenset({RETRIES, OOMS, _serving.PREEMPTED}),
    trends=_latency.TRENDS | {STEP},
    events=frozenset({"torch"}),
    hold=60.0,
    clear=300.0,
    thresholds={
        "bare": Threshold(0.03, "ratio", "of the device; a CUDA context takes half a GiB"),
        "full": Threshold(0.92, "ratio", "of the device used: what is left serves no allocation"),
        "busy": Threshold(0.85, "ratio", "utilisation: with idle time left nobody waits for it"),
        "recent": Threshold(600.0, "seconds", "ten minutes"),
        "retries": Threshold(3.0, "retries", "single ones come with a change of shapes"),
        "thrown": Threshold(20.0, "requests", "two a minute, as in the rule on request jitter"),
        "slower": Threshold(1.3, "ratio", "to its own past; two that take turns lose more"),
    },
)
