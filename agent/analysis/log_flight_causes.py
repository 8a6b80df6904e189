"""Verdicts over flight-recorder dumps as causes, in words."""

from __future__ import annotations

from collections.abc import Sequence

from gpudiag.agent.analysis.causes import Cause
from gpudiag.agent.analysis.log_flight import Flight, Kind, judge
from gpudiag.agent.analysis.log_flight_dump import Dump

SYMPTOM, CAUSE = "training-interrupted", "hung-collective"

_SURE: dict[Kind, float] = {
    "missing": 0.9,
    "operation": 0.9,
    "order": 0.9,
    "size": 0.9,
    "type": 0.9,
    "stuck": 0.7,
    "alone": 0.5,
}
_NEXT_STEP: dict[Kind, str] = {
    "missing": "Read that rank's log and stack (`py-spy dump`): what it did instead of entering.",
    "operation": "Look for a condition that only some ranks take before this collective.",
    "order": "Make all ranks issue these collectives in one order, or in groups of their own.",
    "size": "Compare the tensors' shapes on these ranks: uneven batches or a different model.",
    "type": "Compare the tensors' precision on these ranks.",
    "stuck": "Look at the network's counters and for a stream that waits for another.",
    "alone": "Collect the dumps of the ranks that are missing and run this again over all.",
}


def causes(dumps: Sequence[Dump]) -> list[Cause]:
    """What the dumps of one hang give away; empty where nothing waits."""
    found = judge(dumps)
    return [
        _cause(one, len(dumps), "" if index == 0 else f"{SYMPTOM}#{CAUSE}")
        for index, one in enumerate(found)
    ]


def _cause(one: Flight, dumps: int, follows: str) -> Cause:
    unseen = f"the dumps of {_ranks(one.unseen)}" if one.unseen else ""
    what = "Send or receive" if one.pairwise else "Collective"
    sure = _SURE[one.kind] - (0.1 if one.unseen and one.kind != "alone" else 0.0)
    return Cause(
        cause=CAUSE,
        confidence=sure,
        severity="critical",
        summary=f"{what} {one.sequence} timed out or waits: {_words(one)}.",
        line=0,
        symptom=SYMPTOM,
        who=_ranks(one.ranks) if one.ranks else "",
        evidence=(
            f"{dumps} dumps, group {one.group or 'default'}, {one.operation} {one.sequence}",
            *([one.detail] if one.detail else []),
        ),
        missing=tuple(filter(None, (unseen,))),
        todo=_NEXT_STEP[one.kind],
        consequence_of=follows,
    )


def _words(one: Flight) -> str:
    wait = "waits" if len(one.waiting) == 1 else "wait"
    who, others = _ranks(one.ranks), _ranks(one.waiting) if one.waiting else "the others"
    if one.kind == "missing":
        return f"{who} never entered {one.operation}, {others} {wait} in it"
    if one.kind == "stuck":
        return f"all have entered {one.operation} and it completes on none"
    if one.kind == "alone":
        return f"{others} {wait} in {one.operation}; whom for, the other ranks' dumps would tell"
    if one.kind == "order" and one.pairwise:
        return f"each waits for one who waits: {one.detail}"
    if one.kind == "order":
        return f"{who} entered another one first: {one.detail}"
    what = {"operation": "another one", "size": "another size", "type": "another type"}[one.kind]
    return f"{who} entered {what}: {one.detail}"


def _ranks(ranks: Sequence[int]) -> str:
    more = f" and {len(ranks) - 6} more" if len(ranks) > 6 else ""
    shown = ", ".join(map(str, ranks[:6])) + more
    return f"{'rank' if len(ranks) == 1 else 'ranks'} {shown}"
