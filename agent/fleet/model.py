"""A fleet at one moment: what is known of its nodes, its jobs and the findings on them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gpudiag.probes.catalog import Severity, gravity


@dataclass(frozen=True, slots=True)
class Fault:
    """A finding that fires on a node; confidence 0-1."""

    node: str
    symptom: str
    cause: str
    severity: Severity
    confidence: float
    subject: Mapping[str, str] = field(default_factory=dict)
    summary: str = ""

    @property
    def order(self) -> tuple[int, float, str, str]:
        """Sort key, the worst first."""
        return -gravity(self.severity), -self.confidence, self.node, self.symptom


@dataclass(frozen=True, slots=True)
class NodeState:
    """One node. `expected` GPUs is 0 where nobody says; `busy` 0-1 is the mean of its GPUs.

    `labels` are those by which nodes belong together: rack, switch, zone, driver, image.
    """

    name: str
    gpus: int = 0
    expected: int = 0
    busy: float | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    up: bool = True


@dataclass(frozen=True, slots=True)
class JobState:
    """One job. `nodes` has the number of its ranks on each; `step` and `behind` are seconds.

    `behind` is by how much its slowest rank computes longer than the usual one, in each step.
    """

    name: str
    nodes: Mapping[str, int]
    step: float | None = None
    behind: float = 0.0

    @property
    def ranks(self) -> int:
        """How many ranks it has; each has a GPU."""
        return sum(self.nodes.values())
