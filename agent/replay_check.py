"""Whether a replay gave what the recording says it must, and nothing it must not."""

from __future__ import annotations

from gpudiag.agent.findings.finding import Finding, finding_id, subject_matches
from gpudiag.agent.recording.expectations import EVERY_SYMPTOM, Expect, Expectations
from gpudiag.agent.replay import Run
from gpudiag.agent.units import spell_seconds

_ROUNDING = 1e-3


def check(wanted: Expectations, run: Run) -> list[str]:
    """What differs, one sentence each; empty when the run is as it must be.

    A folded finding meets an expectation; neither it nor an info finding breaks the quiet. A
    finding that is neither expected nor forbidden is no difference.
    """
    unmet = [_unmet(expect, run) for expect in wanted.expect if not _met(expect, run)]
    return unmet + [_broke(finding) for finding in run.findings() if _loud(finding, wanted.quiet)]


def _met(expect: Expect, run: Run) -> bool:
    if expect.state == "unknown":
        return any(b.symptom == expect.symptom and _by(expect, b.since) for b in run.blind)
    return any(_fits(expect, finding) for finding in run.versions)


def _fits(expect: Expect, finding: Finding) -> bool:
    return (
        finding.symptom == expect.symptom
        and finding.state == expect.state
        and (not expect.causes or finding.cause in expect.causes)
        and subject_matches(expect.subject, finding.subject)
        and finding.raised_at is not None
        and _by(expect, finding.raised_at)
    )


def _by(expect: Expect, at: float) -> bool:
    return expect.by is None or at <= expect.by + _ROUNDING


def _loud(finding: Finding, quiet: frozenset[str]) -> bool:
    return (
        finding.state == "firing"
        and not finding.explained_by
        and finding.severity != "info"
        and not quiet.isdisjoint((finding.symptom, EVERY_SYMPTOM))
    )


def _unmet(expect: Expect, run: Run) -> str:
    name = finding_id(expect.symptom, tuple(expect.subject.items()))
    cause = f" with cause {' or '.join(expect.causes)}" if expect.causes else ""
    by = f", raised by {spell_seconds(expect.by)}" if expect.by is not None else ""
    near = [_seen(f) for f in run.findings() if f.symptom == expect.symptom]
    near += ["unknown" for b in run.blind if b.symptom == expect.symptom]
    instead = "; ".join(near) or "nothing of this symptom"
    return f"expected {name}{cause} to be {expect.state}{by}, but there was {instead}"


def _seen(finding: Finding) -> str:
    at = finding.resolved_at if finding.state == "resolved" else finding.raised_at
    return f"{finding.id} with cause {finding.cause} {finding.state} at {spell_seconds(at or 0.0)}"


def _broke(finding: Finding) -> str:
    return f"expected quiet, but there was {_seen(finding)}: {finding.summary}"
