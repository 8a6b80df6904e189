"""A verdict, and all that one may look at."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import msgspec

from gpudiag.agent.analysis.memory.asked import Asked
from gpudiag.agent.analysis.memory.causes import Rival
from gpudiag.agent.analysis.memory.digest import Device
from gpudiag.agent.analysis.memory.growth import Growth
from gpudiag.agent.analysis.memory.outlook import Outlook, Sums
from gpudiag.agent.analysis.memory.requests import Request
from gpudiag.agent.analysis.memory.timeline import Timeline

Kind = Literal[
    "leak", "warm-up", "sawtooth", "caching", "fragmentation", "outside torch", "host side",
    "out of memory", "steady", "cannot tell",
]  # fmt: skip


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What it is, with `confidence` 0-1, the evidence and what to do next, in words.

    `symptom` and `cause` are the documented ones, "" where nothing is wrong; `runbook` is what
    `gpudiag runbook` takes.
    """

    kind: Kind
    confidence: float
    summary: str
    evidence: tuple[str, ...] = ()
    next: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    severity: str = ""
    symptom: str = ""
    cause: str = ""
    rivals: tuple[Rival, ...] = ()

    @property
    def runbook(self) -> str:
        return f"{self.symptom}#{self.cause}" if self.cause else self.symptom


class Case(NamedTuple):
    """All that a verdict may look at."""

    device: Device
    points: Timeline | None
    found: Sequence[Growth]
    sums: Sums | None
    requests: Sequence[Request]
    outlook: Outlook | None
    asked: Asked
    step: int | None
