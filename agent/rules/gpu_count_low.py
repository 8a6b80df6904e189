"""Fewer GPUs than expected on this node."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from gpudiag.agent.rules._gpus import INFO, MEASURED, answering, known, title
from gpudiag.agent.rules._lines import Where, at
from gpudiag.agent.rules.contract import (
    Diagnosis,
    Evidence,
    Healthy,
    Limits,
    Rule,
    Suggestion,
    Verdict,
)
from gpudiag.agent.window import Window

COUNT = "gpudiag_gpus"
EXPECTED = "gpudiag_gpus_expected"
RAW = 7200.0


def check(window: Window, _: Limits) -> Iterator[Verdict]:
    """Compare, for each node, the GPUs that the driver lists with those it should have."""
    for point in window.latest(COUNT):
        node = point.labels.get("node")
        where: Where = {"node": node} if node else {}
        expected = window.value(EXPECTED, **where)
        if expected is None:
            yield from _before(window, where, point.value)
        elif point.value < expected:
            yield _diagnosis(window, where, point.value, expected)
        else:
            yield Healthy(at(where))


def _before(window: Window, where: Where, count: float) -> Iterator[Verdict]:
    """Without an expectation, what the driver listed lately is one, though a weaker one."""
    listed = [s.values for s in window.series(COUNT, RAW, **where) if len(s.values)]
    most = max((float(values.max()) for values in listed), default=count)
    if count < most:
        found = _diagnosis(window, where, count, most)
        yield replace(found, confidence=0.6, severity="warning", missing=(EXPECTED,))
    elif any(values.min() < count for values in listed):
        yield Healthy(at(where))


def _diagnosis(window: Window, where: Where, count: float, expected: float) -> Diagnosis:
    there = answering(window)
    gone = [
        title(labels)
        for uuid, labels in known(window).items()
        if uuid not in there and labels.get("node") == where.get("node")
    ]
    names = f" Missing: {', '.join(gone)}." if gone and there else ""
    return Diagnosis(
        subject=at(where),
        cause="gpu-count-low",
        confidence=0.95,
        summary=f"The driver lists {count:.0f} GPUs where {expected:.0f} are expected.{names}",
        evidence=(
            Evidence(COUNT, count, expected=f"{expected:.0f}", labels=where),
            *_expectation(window, where),
        ),
        actions=(
            Suggestion("notify", "Compare `nvidia-smi -L` with `lspci -d 10de:`; read `dmesg`."),
            Suggestion("drain", "Drain the node, then reboot it; if it lasts, inspect the GPU."),
        ),
    )


def _expectation(window: Window, where: Where) -> Iterator[Evidence]:
    expected = window.value(EXPECTED, **where)
    if expected is not None:
        yield Evidence(EXPECTED, expected, labels=where)


RULE = Rule(check=check, reads=frozenset({COUNT, *MEASURED, INFO}), hold=30.0, clear=30.0)
