"""What a log gives away: one cause with the lines that say so, how sure, and what to do next."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from gpudiag.probes.catalog import Severity, symptoms
from gpudiag.probes.catalog.records import Symptom


@dataclass(frozen=True, slots=True)
class Cause:
    """`symptom` is "" where no documented one fits; `line` counts from 1, `times` how often.

    `who` is what it is about (a GPU, a process, a device); `consequence_of` names the cause that
    explains this one.
    """

    cause: str
    confidence: float
    severity: Severity
    summary: str
    line: int
    symptom: str = ""
    who: str = ""
    times: int = 1
    evidence: tuple[str, ...] = ()
    rivals: tuple[tuple[str, str], ...] = ()
    missing: tuple[str, ...] = ()
    todo: str = ""
    consequence_of: str = ""

    @property
    def documented(self) -> Symptom | None:
        """The symptom it belongs to, None where none is documented."""
        return symptoms().get(self.symptom)

    @property
    def page(self) -> str:
        """Page and section as `gpudiag runbook` takes them; whether it exists is not known here."""
        return f"{self.symptom}#{self.cause}" if self.symptom else ""

    def to_json(self) -> dict[str, Any]:
        """Plain data; `rivals` as objects, as a finding has them."""
        plain = asdict(self)
        plain["rivals"] = [{"cause": cause, "why_not": why} for cause, why in self.rivals]
        return plain


@dataclass(frozen=True, slots=True)
class Reading:
    """A text as it was read: how many lines, and what they give away, the gravest first."""

    lines: int
    causes: tuple[Cause, ...] = ()
