"""Counts how decisions came out."""

from __future__ import annotations

from collections import Counter

from gpudiag.agent.actions.audit import Line

OUTCOMES = frozenset({"dry_run", "refused", "done", "failed", "verified", "not_verified"})


class Counts:
    """How often each action ended how, as `gpudiag_actions_total` tells it."""

    def __init__(self) -> None:
        self.of: Counter[tuple[str, str]] = Counter()

    def __call__(self, line: Line) -> None:
        """Count one audit line; a plan made worse was not verified."""
        outcome = "not_verified" if line.decision == "worse" else line.decision
        if outcome in OUTCOMES:
            self.of[line.plan.action, outcome] += 1
