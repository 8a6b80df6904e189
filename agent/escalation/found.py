"""What a capture gives: the call site that grows, how fast, and who holds it. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import PurePath
from typing import Any

import msgspec

from gpudiag.agent.analysis.memory.census import Census, Group


class Found(msgspec.Struct, frozen=True):
    """The answer in one sentence; bytes a step, bytes now; `cause` of memory-slow-growth or ""."""

    summary: str
    cause: str = ""
    site: str = ""
    per_step: float = 0.0
    held: float = 0.0
    confidence: float = 0.0
    files: tuple[str, ...] = ()


def of_report(report: Mapping[str, Any]) -> Found:
    """From the JSON of `gpudiag leak-report`."""
    said = report["verdict"]
    growing = [g for part in report["parts"] for g in part["growth"] if g["leaks"]]
    if said["kind"] != "leak" or not growing:
        return Found(said["summary"], confidence=said["confidence"])
    first = growing[0]
    site = f"{PurePath(first['site']['file']).name}:{first['site']['line']}"
    return Found(
        summary=said["summary"],
        cause=said["cause"],
        site=site,
        per_step=float(first["rate"]),
        held=float(first["last"]),
        confidence=float(said["confidence"]),
    )


LEAST_GROWTH = 2
"""Tensors more than at the census before: one more may be the loss that is still at hand."""


def of_census(taken: Sequence[Mapping[str, Any]], steps: Sequence[int]) -> Found:
    """From censuses of one process, oldest first, and the step at which each was taken.

    A group that grew each time is told with the name that holds it; a census cannot see what C++
    holds, and says nothing then.
    """
    counted = [msgspec.convert(one, Census, strict=False) for one in taken]
    between = max(1, steps[-1] - steps[0])
    growing = [(_growth(counted, group), group) for group in counted[-1].groups]
    growing = [(grown, group) for grown, group in growing if grown >= LEAST_GROWTH]
    if not growing:
        return Found("no group of live tensors grew each time: what grows is not seen from Python")
    # A small tensor with a graph keeps all of its graph, which no census can weigh.
    grown, group = max(growing, key=lambda one: (bool(one[1].grad_fn), one[0] * _each(one[1])))
    per_step = grown * _each(group) / between
    holder = _holder(counted, group)
    site = holder.rpartition(" in ")[2] if holder else ""
    graph = "with a graph" if group.grad_fn else "without a graph"
    name = holder or "nobody that could be found"
    return Found(
        summary=f"{name} holds {group.count:,} tensors {graph}, {grown:+,} in {between:,} steps",
        cause="tensors-retained-across-steps" if group.grad_fn or not holder else _BUFFER,
        site=site,
        per_step=per_step,
        held=float(group.bytes),
        confidence=0.85 if holder else 0.6,
    )


_BUFFER = "log-or-cache-buffers"


def _holder(counted: Sequence[Census], like: Group) -> str:
    """Who holds the group, by the newest census that found it: a search may run out of time."""
    for census in reversed(counted):
        for group in census.groups:
            named = [h for h in group.holders if group.kind == like.kind and _NAMED.search(h)]
            if named:
                return named[0]
    return ""


_NAMED = re.compile(r"(?<! variable) in \S")
"""A container with a place; a variable holds one tensor, and not what grows."""


def _each(group: Group) -> float:
    return group.bytes / max(1, group.count)


def _growth(counted: Sequence[Census], group: Group) -> int:
    """How many tensors more from the first census to the last; 0 unless each had more."""
    counts = [_count(one, group) for one in counted]
    rises = all(later > sooner for sooner, later in pairwise(counts))
    return counts[-1] - counts[0] if rises else 0


def _count(census: Census, like: Group) -> int:
    return next((group.count for group in census.groups if group.kind == like.kind), 0)
