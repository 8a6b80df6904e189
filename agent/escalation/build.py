"""From the configuration to an escalator."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from gpudiag.agent.config.sections import Snapshots as Settings
from gpudiag.agent.escalation.budget import Budget
from gpudiag.agent.escalation.capture import Capture, Ranks, Snapshots
from gpudiag.agent.escalation.escalator import Escalator, Put
from gpudiag.agent.escalation.shelf import Shelf


def escalator_for(
    settings: Settings, state: Path, ranks: Ranks | None, put: Put, now: Callable[[], float]
) -> Escalator | None:
    """The escalator of a live agent; None where it is switched off or nobody can be asked."""
    if ranks is None or not settings.enabled:
        return None
    announced = Snapshots()
    shelf = Shelf(state / "snapshots", settings.max_size)
    budget = Budget(state / "captures.json", settings.every)
    capture = Capture(ranks, announced, shelf, settings.gap)
    return Escalator(capture, announced, budget, put, now)
