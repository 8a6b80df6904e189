"""The seam between what is measured and the packet: every measure is a `Meter`."""

from __future__ import annotations

from typing import Protocol

Value = tuple[str, dict[str, str], float]
"""Metric name, labels without job and rank, value in the metric's base unit."""


class Meter(Protocol):
    """Gathers in the hot path, told once about every second."""

    def take(self, steps: int) -> list[Value]:
        """What the last `steps` steps gave; starts anew. Called at a step boundary."""
