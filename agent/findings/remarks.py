"""What people say of findings: that somebody is on it, and whether it was right."""

from __future__ import annotations

import msgspec

from gpudiag.agent.rules.contract import UNDETERMINED
from gpudiag.probes.catalog import symptoms
from gpudiag.probes.errors import UsageError


class Acknowledgement(msgspec.Struct, frozen=True, kw_only=True):
    """A person is on it from `at` to `until`, epoch seconds; the finding goes on all the same."""

    by: str
    at: float
    until: float
    reason: str


class Review(msgspec.Struct, frozen=True, kw_only=True):
    """A person's verdict on a finding, given at `at`: right, or wrong with the cause it had."""

    right: bool
    cause: str
    by: str
    at: float


def checked_cause(symptom: str, cause: str) -> str:
    """`cause`, empty or documented for the symptom; the `UsageError` for another names those."""
    documented = symptoms()[symptom].causes
    if cause and cause != UNDETERMINED and cause not in documented:
        listed = ", ".join(documented[:20]) + (", ..." if len(documented) > 20 else "")
        raise UsageError(f"{cause[:100]!r} is no documented cause of {symptom}: {listed}")
    return cause
