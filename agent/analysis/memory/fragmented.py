"""Verdicts on memory that is free and of no use: fragments, stranded pools, a growing cache."""

from __future__ import annotations

from gpudiag.agent.analysis.memory import causes, figures, words
from gpudiag.agent.analysis.memory.causes import Rival
from gpudiag.agent.analysis.memory.pools import MIB
from gpudiag.agent.analysis.memory.requests import PINNED, PRIVATE, SHAPES, STREAMS
from gpudiag.agent.analysis.memory.ruling import Case, Verdict
from gpudiag.agent.analysis.memory.trend import FEW, judge

SHARE = 0.1
"""Of what is reserved: a smaller idle part explains nothing (healthy dumps have up to 0.13)."""


def stuck(case: Case) -> Verdict | None:
    """A request that failed, or would, although the free bytes together would do."""
    for request in case.requests:
        if request.answer == "no" and request.cause:
            failed = request.kind == "failed"
            return Verdict(
                kind="fragmentation",
                confidence=0.9 if failed else 0.75,
                summary=f"{'A request' if failed else 'The typical request'} of"
                f" {figures.size(request.size)} cannot be served: {request.why}.",
                evidence=words.fragments(case.device),
                next=_FREE[request.cause],
                severity="critical" if failed else "warning",
                symptom="fragmentation",
                cause=request.cause,
            )
    return None


_FREE = {
    PRIVATE: (
        "Capture fewer shapes, or let all graphs share one pool (graph_pool_handle).",
        "Free what a capture or a sleeping engine no longer needs: its pool goes with it.",
    ),
    STREAMS: (
        "Allocate on the stream that uses the memory, or on one side stream instead of many.",
        "torch.cuda.empty_cache() at a step boundary, once the side stream's blocks are free.",
    ),
    PINNED: (
        "Make what lives long before what lives short: see which line holds each segment below.",
        "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
    ),
    SHAPES: (
        "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
        "Pad lengths to a few sizes.",
    ),
}


def cache(case: Case) -> Verdict | None:
    """Reserved memory that grows while live memory does not."""
    points = case.points
    if not points or not case.sums or case.sums.reserved <= MIB:
        return None
    trend = judge(points.xs, points.reserved, least=MIB)
    flat = case.sums.live < 0.3 * case.sums.reserved
    if trend.shape != "grows" or not flat:
        return None
    held = sum(pool.held for pool in case.device.pools)
    split = held > 0.5 * case.sums.reserved and held > SHARE * case.device.reserved
    cause = causes.FRAGMENTS if split else causes.CACHING
    return Verdict(
        kind="fragmentation" if split else "caching",
        confidence=0.75 if trend.cycles >= FEW else 0.5,
        summary=f"Reserved memory grew by {figures.size(case.sums.reserved)} while live memory"
        f" stayed: {'free pieces lie between live blocks' if split else 'the cache grows'}.",
        evidence=(
            f"reserved: {figures.change(points.reserved)}; live: {figures.change(points.live)}",
            *words.fragments(case.device),
        ),
        next=_FREE[SHAPES] if split else ("Benign while no allocation is retried: watch it.",),
        severity="warning" if split else "info",
        symptom=causes.SYMPTOM,
        cause=cause,
        rivals=(Rival(causes.RETAINED, "live memory is flat"),),
    )
