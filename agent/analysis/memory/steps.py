"""Where in a trace the same phase of the step comes round: the moments that can be compared."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

MOST = 96
"""Moments that are compared; a longer recording is thinned, its first and last kept."""

FEW = 3
_NUMBERED = re.compile(r"ProfilerStep#(\d+)")
_IN_NAME = re.compile(r"(?i)(?:step|iter(?:ation)?|it)[-_=]?(\d+)")


class Moments(NamedTuple):
    """Positions in the trace at one phase of the step; `steps` counts them, from the first.

    `phase` says which phase, "" where no annotation tells and the trace is only cut evenly.
    """

    marks: list[int]
    steps: list[int]
    phase: str


def moments(trace: Sequence[Any], annotations: Sequence[Mapping[str, Any]]) -> Moments:
    """The moments of the trace's own annotations; none where they are too few or have no times."""
    phase, times = _repeated(annotations)
    if len(times) < FEW or not _timed(trace):
        return Moments([], [], "")
    first, last = trace[0]["time_us"], trace[-1]["time_us"]
    inside = [(n, t) for n, t in enumerate(times) if first <= t <= last + 1_000_000]
    if len(inside) < FEW:
        return Moments([], [], "")
    every = -(-len(inside) // MOST)
    kept = inside[::-every][::-1]
    marks = [bisect_left(trace, t, key=lambda entry: entry["time_us"]) for _, t in kept]
    return Moments(marks, [n - kept[0][0] for n, _ in kept], phase)


def _timed(trace: Sequence[Any]) -> bool:
    """Whether times are there and ascend, looked at in a few hundred places."""
    try:
        times = [entry["time_us"] for entry in trace[:: max(1, len(trace) // 500)]]
        return bool(times) and all(type(t) is int for t in times) and times == sorted(times)
    except (KeyError, TypeError):
        return False


def _repeated(annotations: Sequence[Mapping[str, Any]]) -> tuple[str, list[int]]:
    """The phase to compare at: after the optimizer's step where there is one.

    After it (and its zero_grad) activations and gradients are gone: what is left is meant to stay.
    """
    ends: dict[str, list[int]] = defaultdict(list)
    for note in annotations:
        if note.get("stage") == "END":
            ends[_NUMBERED.sub("ProfilerStep", note["name"])].append(note["time_us"])
    best = max(ends, key=lambda name: (_worth(name), len(ends[name])), default="")
    return best, sorted(ends.get(best, []))


def _worth(name: str) -> int:
    ranks = ("Optimizer.step", "Optimizer.zero_grad", "ProfilerStep")
    return next((n for n, start in enumerate(ranks, 1) if name.startswith(start)), 0)


def step_of(annotations: Sequence[Mapping[str, Any]], name: str) -> int | None:
    """The step a snapshot was taken at: by the profiler's count, or by the file's name."""
    numbers = [int(m[1][:15]) for a in annotations if (m := _NUMBERED.fullmatch(a["name"]))]
    if numbers:
        return max(numbers) + 1
    found = _IN_NAME.findall(name)
    return int(found[-1][:15]) if found else None
