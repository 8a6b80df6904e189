"""Snapshots to reports in one call, for tests."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from gpudiag.agent.analysis.memory.asked import Asked
from gpudiag.agent.analysis.memory.digest import Digest
from gpudiag.agent.analysis.memory.digesting import digest
from gpudiag.agent.analysis.memory.report import Part, report
from gpudiag.agent.analysis.snapshots import shaped
from tests.allocsim.case import Case
from tests.allocsim.scenarios import SCENARIOS


def digested(plain: Any, name: str = "a.pickle") -> Digest:
    """The digest of a snapshot in memory."""
    return digest(shaped(plain), name)


def judged(files: Sequence[Digest], asked: Asked | None = None) -> Part:
    """The part that most needs looking at."""
    return report([(None, file) for file in files], asked or Asked()).parts[0]


@cache
def played(name: str) -> tuple[Case, tuple[Digest, ...]]:
    """A scenario by name, with the digests of its snapshots."""
    case = SCENARIOS[name]()
    named = zip(case.steps, case.snapshots, strict=True)
    return case, tuple(digested(plain, f"step_{step}.pickle") for step, plain in named)
