"""Moments to compare where no annotation tells the steps: the lowest memory of even stretches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gpudiag.agent.analysis.memory.steps import Moments

STRETCHES = 24
_LEAST = 240


def troughs(trace: Sequence[Any]) -> Moments:
    """The position of the lowest live memory in each stretch; none in a trace too short to cut.

    Steps are not known then: the moments are merely counted.
    """
    if len(trace) < _LEAST:
        return Moments([], [], "")
    edges = [n * len(trace) // STRETCHES for n in range(STRETCHES + 1)]
    try:
        marks = _lowest(trace, edges)
    except (KeyError, TypeError):
        marks = edges[:-1]
    return Moments(marks, list(range(len(marks))), "")


def _lowest(trace: Sequence[Any], edges: Sequence[int]) -> list[int]:
    found = []
    total = 0
    for start, end in zip(edges, edges[1:], strict=False):
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
