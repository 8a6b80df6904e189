"""Free memory that cannot serve the sizes asked for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from gpudiag.agent.analysis.oom_words import GIB, size
from gpudiag.agent.rules._blame import Blame
from gpudiag.agent.rules._jobs import jobs
from gpudiag.agent.rules.contract import (
    UNDETERMINED,
    Diagnosis,
    Evidence,
    Healthy,
    Limits,
    Rule,
    Suggestion,
    Threshold,
    Verdict,
    subject,
)
from gpudiag.agent.window import Window

ALLOCATED = "gpudiag_torch_allocated_bytes"
PEAK = "gpudiag_torch_allocated_peak_bytes"
RESERVED = "gpudiag_torch_reserved_bytes"
SPLIT = "gpudiag_torch_inactive_split_bytes"
PRIVATE = "gpudiag_torch_private_pool_bytes"
STREAMS = "gpudiag_torch_stream_free_bytes"
LARGEST = "gpudiag_torch_largest_free_block_bytes"
LIVE = "gpudiag_torch_live_blocks"
RETRIES = "gpudiag_torch_alloc_retries_total"
LENGTH = "gpudiag_train_sequence_length"
CAPACITY = "gpudiag_gpu_memory_total_bytes"
BACK = 900.0


@dataclass(frozen=True, slots=True)
class _Rank:
    """One rank's memory now, bytes: `idle` is reserved and unused even at the step's peak."""

    labels: dict[str, str]
    reserved: float
    idle: float
    split: float | None
    private: float
    streams: float
    largest: float | None
    retries: float
    full: bool


def check(window: Window, limits: Limits) -> Iterator[Verdict]:
    """Judge every rank that tells what torch reserves and what of it is used."""
    for point in window.latest(RESERVED):
        labels = {k: v for k, v in point.labels.items() if k in ("job", "rank")}
        used = window.value(PEAK, **labels) or window.value(ALLOCATED, **labels)
        if used is None or "rank" not in labels:
            continue
        who = subject(**labels)
        idle = point.value - used
        if idle < max(limits["idle"] * point.value, limits["least"]):
            yield Healthy(who)
            continue
        rank = _rank(window, labels, point.value, idle, limits)
        found = _stuck(window, rank, limits)
        yield _diagnosis(rank, found) if found else Healthy(who)


def _rank(
    window: Window, labels: dict[str, str], reserved: float, idle: float, limits: Limits
) -> _Rank:
    streams = [
        p.value
        for p in window.latest(STREAMS, **labels)
        if p.labels.get("stream", "0") not in ("0", "default", "")
    ]
    rises = window.increase(RETRIES, BACK, **labels)
    job = jobs(window).get(labels.get("job", ""))
    uuid = job.uuids.get(labels["rank"]) if job else None
    whole = window.value(CAPACITY, uuid=uuid) if uuid else None
    return _Rank(
        labels,
        reserved,
        idle,
        window.value(SPLIT, **labels),
        window.value(PRIVATE, **labels) or 0.0,
        sum(streams),
        window.value(LARGEST, **labels),
        sum(p.value for p in rises),
        bool(whole and reserved >= limits["full"] * whole),
    )


def _stuck(window: Window, rank: _Rank, limits: Limits) -> Blame | None:
    """The cause, None where what is idle can be given back or nobody misses it."""
    half = 0.5 * rank.idle
    if not (rank.retries or rank.full):
        return None
    if rank.private >= half:
        words = f"{size(rank.private)} lie in private pools, of use to their owners only"
        return Blame("private-pools-stranded", 0.85, words, [_told(rank, PRIVATE, rank.private)])
    if rank.streams >= half:
        words = f"{size(rank.streams)} are free for side streams only"
        return Blame("stream-pools", 0.85, words, [_told(rank, STREAMS, rank.streams)])
    return _in_pieces(window, rank, limits)


def _in_pieces(window: Window, rank: _Rank, limits: Limits) -> Blame | None:
    """Idle memory between live blocks: because sizes vary, or because few blocks hold it."""
    half = 0.5 * rank.idle
    if rank.split is None and rank.largest is None:
        words = "whether it could be given back is not measured"
        return Blame(UNDETERMINED, 0.5, words) if rank.retries else None
    # Whole free segments are cache: torch gives them back before it fails.
    in_pieces = rank.split is not None and rank.split >= half
    small = rank.largest is not None and rank.largest <= limits["small"] * rank.idle
    if not in_pieces and not (rank.split is None and small):
        return None
    return _holding(window, rank, limits)


def _holding(window: Window, rank: _Rank, limits: Limits) -> Blame:
    evidence = [_told(rank, SPLIT, rank.split)] if rank.split is not None else []
    if rank.largest is not None:
        evidence.append(_told(rank, LARGEST, rank.largest))
    varied = _varied(window, rank, limits)
    if varied:
        words = f"the sizes asked for vary with the sequence length ({varied:.0%}), and free"
        return Blame("variable-shapes", 0.85, words + " blocks fit none of them", evidence)
    blocks = {p.labels.get("age", ""): p.value for p in window.latest(LIVE, **rank.labels)}
    total = sum(blocks.values())
    if total and blocks.get("old", total) <= limits["few"] * total:
        evidence.append(_told(rank, LIVE, blocks.get("old", 0.0)))
        words = f"{blocks.get('old', 0.0):.0f} old blocks of {total:.0f} hold segments that are"
        return Blame("pinned-by-few-live-blocks", 0.8, words + " free otherwise", evidence)
    return Blame(UNDETERMINED, 0.6, "it lies split between live blocks", evidence)


def _varied(window: Window, rank: _Rank, limits: Limits) -> float:
    """How much the observed sequence length scatters, as a ratio; 0.0 where not or not known."""
    for series in window.series(LENGTH, BACK, **rank.labels):
        if len(series.values) >= 4 and float(np.mean(series.values)) > 0.0:
            scatter = float(np.std(series.values) / np.mean(series.values))
            return scatter if scatter >= limits["varied"] else 0.0
    return 0.0


def _told(rank: _Rank, metric: str, value: float) -> Evidence:
    return Evidence(metric, value, labels=rank.labels)


def _diagnosis(rank: _Rank, found: Blame) -> Diagnosis:
    pressed = f"{rank.retries:.0f} allocations had to be retried in 15 min" if rank.retries else ""
    pressed = pressed or "its GPU is nearly full"
    missing = (LENGTH, LIVE, "a snapshot: which blocks hold the segments")
    return Diagnosis(
        subject(**rank.labels),
        found.cause,
        found.sure,
        f"Rank {rank.labels['rank']}: {size(rank.idle)} of {size(rank.reserved)} reserved are idle"
        f" even at the peak and {pressed}: {found.words}.",
        (
            Evidence(RESERVED, rank.reserved, "bytes", labels=rank.labels),
            Evidence(RETRIES, rank.retries, "retries", "0", rank.labels),
            *found.evidence,
        ),
        missing=missing if found.cause == UNDETERMINED else (),
        actions=_ACTIONS,
    )


_ACTIONS = (
    Suggestion("observe", "Take a snapshot: it names the blocks that hold each segment."),
    Suggestion("degrade", "`torch.cuda.empty_cache()` at a step boundary gives whole ones back."),
    Suggestion(
        "restart", "With `PYTORCH_ALLOC_CONF=expandable_segments:True`, after a checkpoint."
    ),
)

RULE = Rule(
    check=check,
    reads=frozenset({RETRIES, LENGTH}),
    hold=20.0,
    clear=120.0,
    thresholds={
        "idle": Threshold(0.15, "ratio", "of what is reserved; healthy dumps have up to 0.13"),
        "least": Threshold(GIB, "bytes", "less explains no failure on a GPU of today"),
        "full": Threshold(0.85, "ratio", "of the device reserved: the next request will be missed"),
        "small": Threshold(0.1, "ratio", "of the idle bytes in the largest free block"),
        "varied": Threshold(0.05, "ratio", "scatter of lengths; padding to one size has none"),
        "few": Threshold(0.1, "ratio", "of the live blocks, old ones among young segments"),
    },
)
