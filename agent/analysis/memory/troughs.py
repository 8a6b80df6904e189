"""Moments to compare where no annotation tells the steps: the lowest memory of even stretches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

from gpudiag.agent.analysis.memory.steps import Moments

STRETCHES = 24
_LEAST = 240
_PARTS = 8
_LOOKED_AT = 1000
_ALIKE = 0.4


def troughs(trace: Sequence[Any], number: Callable[[Any], int]) -> Moments:
    """The position of the lowest live memory in each stretch.

    None in a trace too short to cut, or one that does not come round to the same call sites
    (`number` gives a stack's): within one step everything grows. Steps are not known here: the
    moments are merely counted.
    """
    if len(trace) < _LEAST or not _recurs(trace, number):
        return Moments([], [], "")
    edges = [n * len(trace) // STRETCHES for n in range(STRETCHES + 1)]
    try:
        marks = _lowest(trace, edges)
    except (KeyError, TypeError):
        marks = edges[:-1]
    return Moments(marks, list(range(len(marks))), "")


def _recurs(trace: Sequence[Any], number: Callable[[Any], int]) -> bool:
    """Whether each part of the trace has most call sites of the others."""
    seen = []
    for part in range(_PARTS):
        start, end = part * len(trace) // _PARTS, (part + 1) * len(trace) // _PARTS
        every = max(1, (end - start) // _LOOKED_AT)
        entries = [e for e in trace[start:end:every] if isinstance(e, dict)]
        seen.append({number(e.get("frames")) for e in entries if e.get("action") == "alloc"})
    every_site, shared = set.union(*seen), set.intersection(*seen)
    return bool(shared - {0}) and len(shared) >= _ALIKE * len(every_site)


def _lowest(trace: Sequence[Any], edges: Sequence[int]) -> list[int]:
    found = []
    total = 0
    for start, end in pairwise(edges):
        low, at = total, start
        for position, entry in enumerate(trace[start:end], start + 1):
            action = entry["action"]
            if action == "alloc":
                total += entry["size"]
            elif action == "free_completed":
                total -= entry["size"]
                if total < low:
                    low, at = total, position
        found.append(at)
    return found
