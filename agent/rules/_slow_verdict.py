"""The finding that a server became slower: its cause, why others lost, what is missing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gpudiag.agent.rules._latency import Quantile, Shift
from gpudiag.agent.rules._slow_serving import Case, Look
from gpudiag.agent.rules.contract import (
    UNDETERMINED,
    Diagnosis,
    Evidence,
    Suggestion,
    Threshold,
)

WEAK = 0.65

_WORDS = {
    "gpudiag_serving_ttft_seconds": "time to first token",
    "gpudiag_serving_inter_token_seconds": "time between tokens",
    "gpudiag_serving_request_seconds": "time of a request",
    "gpudiag_serving_queue_seconds": "time in the queue",
    "gpudiag_canary_seconds": "time of the canary request",
}


def diagnosis(
    case: Case, looks: Sequence[Look], shift: Shift | None, moved: Quantile | None
) -> Diagnosis:
    """The finding; `looks` stand in the order in which causes of like strength are believed."""
    found = [look for look in looks if look.confidence > 0.0]
    # A weak sign of an earlier cause gives way to a strong one of a later.
    best = min(found, key=lambda look: look.confidence < WEAK, default=None)
    open_ = [look for look in looks if look is not best]
    facts = _shift_facts(shift, moved)
    words = best.words if best else "nothing that was looked at explains it"
    missing = tuple(look.missing for look in open_ if look.missing)
    return Diagnosis(
        case.server.who,
        best.cause if best else UNDETERMINED,
        best.confidence if best else 0.5,
        f"{case.server.title}: {_moved(shift, moved)}{words}.",
        facts + (best.evidence if best else ()),
        rivals=tuple(look.rival for look in open_),
        missing=missing if best is None else (),
        actions=_ACTIONS.get(best.cause if best else UNDETERMINED, ()),
        since=case.when.since,
    )


def _moved(shift: Shift | None, moved: Quantile | None) -> str:
    if shift is None or moved is None:
        return ""
    what = "median" if moved.q == 0.5 else f"p{100 * moved.q:.0f}"
    name = _WORDS[shift.metric]
    return f"the {what} {name} is {_time(moved.now)}, {_time(moved.usual)} before; "


def _time(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds >= 1.0 else f"{seconds * 1000.0:.0f} ms"


def _shift_facts(shift: Shift | None, moved: Quantile | None) -> tuple[Evidence, ...]:
    if shift is None or moved is None:
        return ()
    pairs = [moved] if moved is shift.middle else [moved, shift.middle]
    return tuple(
        Evidence(
            shift.metric,
            round(one.now, 4),
            "seconds",
            f"{one.usual:.3g}, its own past",
            {"quantile": f"{one.q:g}"},
        )
        for one in pairs
    )


_CPU = (
    Suggestion("notify", "Find who takes the CPUs: `top -H`, `pidstat -w 1`."),
    Suggestion("degrade", "Raise the pod's CPU request, or move its neighbour away."),
)
_ACTIONS: Mapping[str, tuple[Suggestion, ...]] = {
    "gpu-throttled": (
        Suggestion("notify", "Cooling or power of the node: see the GPU's own finding."),
        Suggestion("drain", "Send traffic to other replicas until its clock is back."),
    ),
    "cpu-starved": _CPU,
    "host-cpu-starved": _CPU,
    "batching-off": (
        Suggestion("degrade", "Raise the batch limit (vLLM: --max-num-seqs) and restart in turn."),
    ),
    "cache-hit-low": (
        Suggestion("notify", "What changed in prompts or routing: prefix order, session affinity."),
        Suggestion("degrade", "Route by prefix again; more cache by less concurrency."),
    ),
    "overload": (
        Suggestion("degrade", "Admit less: a shorter queue limit, 429 above it; shorter outputs."),
        Suggestion("notify", "Add a replica: this one is past its knee."),
    ),
    "preemption-thrash": (
        Suggestion("degrade", "Lower concurrency (--max-num-seqs) until the cache suffices."),
        Suggestion("notify", "More cache: memory fraction, shorter limits, an FP8 cache."),
    ),
    "long-requests-block-short": (
        Suggestion("degrade", "Split by length: a pool of its own for long ones, chunked prefill."),
    ),
    "merge-policy": (
        Suggestion("degrade", "Shorten the wait window, raise batch size or token budget a pass."),
    ),
    UNDETERMINED: (Suggestion("observe", "Record what is missing: see the finding."),),
}

LIMITS = {
    "throttled": Threshold(0.1, "ratio", "of the time, as the rule on thermal throttling has it"),
    "pressure": Threshold(0.2, "ratio", "PSI cpu some; twice its own past is asked for besides"),
    "cpu_full": Threshold(0.95, "ratio", "no idle CPU left to run a waiting task"),
    "hits_lost": Threshold(0.15, "ratio", "of look-ups; a daily mix of prompts moves it by less"),
    "traffic": Threshold(1.8, "ratio", "of look-ups a second, within which traffic is the same"),
    "through_lost": Threshold(0.8, "ratio", "past the knee throughput is flat, it does not fall"),
    "thrown_out": Threshold(2.0, "per minute", "preemptions; single ones are the scheduler's art"),
    "kv_full": Threshold(0.93, "ratio", "of the KV cache, in the mean over some minutes"),
    "longer": Threshold(2.0, "ratio", "of the longest requests' length to their own past"),
    "batch_room": Threshold(0.9, "ratio", "of the batch limit, below which there is room"),
}
