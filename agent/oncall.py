"""What people on call say of the running agent's findings: kept, and a verdict made a draft."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gpudiag.agent import files, kept_samples
from gpudiag.agent.findings.finding import Finding
from gpudiag.agent.findings.remark_store import Remarks
from gpudiag.agent.findings.remarks import Acknowledgement, Review, checked_cause
from gpudiag.agent.findings.store import KEPT_SECONDS
from gpudiag.agent.live import LiveView, Owner
from gpudiag.agent.recording.expectations import Expect, Expectations
from gpudiag.probes.errors import UsageError

log = logging.getLogger(__name__)

DRAFTS = "drafts"
MAX_DRAFTS = 50


class OnCall:
    """See `exporters.oncall.OnCall`; `state` is where drafts go and recordings are."""

    def __init__(
        self,
        token: str,
        remarks: Remarks,
        view: LiveView,
        writer: Owner,
        state: Path,
        now: Callable[[], float],
    ) -> None:
        self.token = token
        self._remarks = remarks
        self._view = view
        self._writer = writer
        self._state = state
        self._now = now

    def acknowledge(self, finding: str, seconds: float, reason: str, actor: str) -> bool:
        """The person `actor` is on it for `seconds`; False where nothing of that id stands."""
        if not any(f.id == finding and f.state != "resolved" for f in self._view.findings()):
            return False
        now = self._now()
        said = Acknowledgement(by=actor, at=now, until=now + seconds, reason=reason)
        self._remarks.acknowledge(finding, said)
        log.warning("acknowledged %s by %s for %.0f s: %s", finding, actor, seconds, reason)
        return True

    def withdraw(self, finding: str, actor: str) -> bool:
        """Nobody is on it any more; False where nobody was."""
        done = self._remarks.withdraw(finding, self._now())
        if done:
            log.warning("the acknowledgement of %s was withdrawn by %s", finding, actor)
        return done

    def judge(self, finding: str, right: bool, cause: str, actor: str) -> dict[str, Any] | None:
        """Keep the verdict on the newest finding of that id, and draft an incident from it.

        Gives the draft's path and text, or why there is none; None where nothing of that id fired
        in 30 days. Raises `UsageError` for a cause that is not documented.
        """
        found = self._found(finding)
        if found is None:
            return None
        cause = checked_cause(found.symptom, cause)
        if right and cause not in ("", found.cause):
            raise UsageError(
                f"it said {found.cause}, not {cause}: then the verdict is wrong {cause}"
            )
        meant = found.cause if right else cause
        review = Review(right=right, cause=meant, by=actor, at=self._now())
        self._remarks.review(found, review)
        try:
            return {"done": True, **self._draft(found, review)}
        except (UsageError, OSError) as error:
            return {"done": True, "draft": "", "text": "", "why": f"no draft: {error}"}

    def _found(self, finding: str) -> Finding | None:
        now = self._now()
        past = self._view.past(now - KEPT_SECONDS, now)
        fired = [f for f in [*self._view.findings(), *past] if f.id == finding and f.raised_at]
        return max(fired, key=lambda f: f.raised_at or 0.0, default=None)

    def _draft(self, finding: Finding, review: Review) -> dict[str, str]:
        span = kept_samples.span_of(finding, self._now())
        with self._writer.lock:
            live = kept_samples.of_window(self._writer.engine.window, finding, span)
        kept = kept_samples.best(live, self._state / "recordings", finding)
        notes = f"{review.by} says: {_in_words(review)}."
        text = kept_samples.incident_text(finding, span, kept, notes, wanted(finding, review))
        path = self._state / DRAFTS / f"{_name(finding)}.yaml"
        path.parent.mkdir(mode=0o700, exist_ok=True)
        for oldest in sorted(path.parent.glob("*.yaml"))[: -MAX_DRAFTS + 1]:
            oldest.unlink(missing_ok=True)
        files.replace(path, text.encode())
        return {"draft": str(path), "text": text, "why": ""}


def wanted(finding: Finding, review: Review) -> Expectations:
    """What a replay must give by this verdict: the named cause, or nothing of this symptom."""
    if not review.cause:
        return Expectations(quiet=frozenset({finding.symptom}))
    return Expectations((Expect(finding.symptom, (review.cause,), dict(finding.subject)),))


def _in_words(review: Review) -> str:
    if review.right:
        return f"right, it was {review.cause}"
    return f"wrong, it was {review.cause}" if review.cause else "wrong, there was no such symptom"


def _name(finding: Finding) -> str:
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(finding.raised_at))
    return f"{stamp}-{re.sub(r'[^A-Za-z0-9.-]+', '-', finding.id).strip('-')[:80]}"
