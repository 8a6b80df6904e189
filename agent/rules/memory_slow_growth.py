"""The memory floor rises over many steps: sooner or later the job runs out of memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from gpudiag.agent.rules import _memory_capture as capture
from gpudiag.agent.rules import _memory_causes as causes
from gpudiag.agent.rules._gpus import gpu, title
from gpudiag.agent.rules._growth import Growth, enough, growth
from gpudiag.agent.rules._memory import (
    DAY,
    READS,
    TOTAL,
    TRENDS,
    USED,
    Memory,
    Worker,
    loaders,
    processes,
)
from gpudiag.agent.rules._memory_advice import ADVICE
from gpudiag.agent.rules.contract import (
    Diagnosis,
    Evidence,
    Healthy,
    Limits,
    Rule,
    Subject,
    Threshold,
    Verdict,
    subject,
)
from gpudiag.agent.window import Window
from gpudiag.probes.catalog import Severity


class _Whose(NamedTuple):
    """Whose memory grows: the subject, what to call it, and its GPU where that is known."""

    who: Subject
    name: str
    uuid: str = ""


def check(window: Window, limits: Limits) -> Iterator[Verdict]:
    """Judge every process that tells of its memory, and every GPU of which only the driver does."""
    told = list(processes(window))
    loading = loaders(window, [memory.key for memory in told])
    explained = 0.0
    grew: set[str] = set()
    for memory in told:
        said = causes.of_process(window, memory)
        if said:
            said = capture.refined(window, memory.who, said)
            grew.add(memory.uuid)
            explained += said.grown.rate if not memory.uuid else 0.0
            yield _diagnosis(window, limits, _Whose(memory.who, _name(memory), memory.uuid), said)
        elif memory.key in loading:
            yield _loading(window, limits, memory.who, loading.pop(memory.key))
        elif memory.judged:
            yield Healthy(memory.who)
    for worker in loading.values():
        named = {k: worker.labels[k] for k in ("job", "rank", "node") if worker.labels.get(k)}
        who = subject(**(named or {"pid": worker.labels.get("pid", "")}))
        yield _loading(window, limits, who, worker)
    yield from _gpus(window, limits, grew, explained)


def _loading(window: Window, limits: Limits, who: Subject, worker: Worker) -> Diagnosis:
    name = f"Loader worker pid {worker.labels.get('pid', '?')}"
    why = "host memory of a data-loading worker grows; the device does not"
    said = causes.Why(causes.LOADING, 0.8, worker.metric, worker.grown, why)
    return _diagnosis(window, limits, _Whose(who, name), said)


def _gpus(window: Window, limits: Limits, grew: set[str], explained: float) -> Iterator[Verdict]:
    for series in window.minutes(USED, DAY, "min"):
        uuid = series.labels.get("uuid", "")
        if not enough(series):
            continue
        grown = None if uuid in grew else growth(series)
        # What a process already stands for, on this GPU or on one not known, is not told twice.
        if grown and grown.rate > limits["explained"] * explained:
            whose = _Whose(gpu(uuid), title(series.labels), uuid)
            yield _diagnosis(window, limits, whose, causes.of_gpu(window, uuid, grown))
        else:
            yield Healthy(gpu(uuid))


def _name(memory: Memory) -> str:
    job, rank = memory.labels.get("job"), memory.labels.get("rank")
    return f"Rank {rank} of {job}" if rank else f"Job {job}"


def _diagnosis(window: Window, limits: Limits, whose: _Whose, said: causes.Why) -> Diagnosis:
    grown = said.grown
    left = _left(window, whose.uuid, grown)
    sure = said.corroborated or grown.seconds >= limits["settled"]
    where = dict(whose.who)
    return Diagnosis(
        subject=whose.who,
        cause=said.cause,
        confidence=said.confidence if sure else said.confidence - 0.15,
        summary=_summary(whose, said, left, sure=sure),
        evidence=(
            Evidence(said.metric, grown.rate, "bytes per second", "a flat floor", where),
            Evidence(said.metric, grown.level, "bytes", labels=where),
            *said.evidence,
        ),
        rivals=said.rivals,
        missing=said.missing,
        actions=ADVICE[said.cause],
        severity=_severity(limits, said, left, sure=sure),
        since=grown.since,
    )


def _summary(whose: _Whose, said: causes.Why, left: float | None, *, sure: bool) -> str:
    grown = said.grown
    end = "" if left is None else f"; the GPU is full in about {_duration(left)} at this rate"
    text = (
        f"{whose.name}: memory grew by {_size(grown.grown)} in {_duration(grown.seconds)}"
        f" ({_size(grown.rate * 3600.0)}/h); {said.why}{end}."
    )
    return text if sure else f"{text} It may still be the rising part of a longer cycle."


def _severity(
    limits: Limits, said: causes.Why, left: float | None, *, sure: bool
) -> Severity | None:
    if said.cause == causes.CACHING:
        return "info"
    soon = left is not None and left < limits["soon"]
    # What may yet prove a sawtooth is told, and wakes nobody unless memory ends first.
    return None if sure or soon else "info"


def _left(window: Window, uuid: str, grown: Growth) -> float | None:
    if not uuid:
        return None
    total, used = window.value(TOTAL, uuid=uuid), window.value(USED, uuid=uuid)
    return (total - used) / grown.rate if total and used else None


def _size(size: float) -> str:
    return f"{size / 2**30:.1f} GiB" if size >= 2**30 else f"{size / 2**20:.0f} MiB"


def _duration(seconds: float) -> str:
    return f"{seconds / 3600.0:.1f} h" if seconds >= 5400.0 else f"{seconds / 60.0:.0f} min"


RULE = Rule(
    check=check,
    reads=READS,
    trends=TRENDS,
    hold=30.0,
    clear=300.0,
    thresholds={
        "settled": Threshold(3600.0, "seconds", "epochs and other cycles are mostly shorter"),
        "soon": Threshold(1200.0, "seconds", "too short to wait for the end of a cycle"),
        "explained": Threshold(1.5, "ratio", "the driver's sum also rises by what surrounds torch"),
    },
)
