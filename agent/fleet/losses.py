"""What jobs lose to degraded nodes, in GPUs that might as well not be there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from gpudiag.agent.fleet.model import Fault, JobState
from gpudiag.agent.rules import RULES, default_limits

STOPS = frozenset({"training-interrupted", "startup-incomplete", "startup-oom"})
"""Findings on a job while which none of its ranks makes a step."""

STRAGGLER = "straggler"
SLOWS = frozenset({STRAGGLER, "multi-gpu-underperforms"})

FLOOR = default_limits(RULES["straggler"])["floor"]
"""Of a step; below it lie placement and noise (the straggler rule's own threshold)."""


@dataclass(frozen=True, slots=True)
class Loss:
    """A job with ranks on degraded nodes. `share` (0-1) of each step is lost, on all `ranks`.

    `faults` are the job's own and those of its nodes, the worst first; `blamed` are the nodes to
    which the loss is put down, none where the findings do not tell.
    """

    job: str
    ranks: int
    share: float
    faults: tuple[Fault, ...]
    blamed: tuple[str, ...]

    @property
    def gpus(self) -> float:
        """GPUs' worth of work that is lost: as many GPU-hours in each hour."""
        return self.share * self.ranks

    def to_json(self) -> dict[str, Any]:
        """The line that stands for it."""
        return {
            "kind": "job",
            "job": self.job,
            "ranks": self.ranks,
            "lost_share": round(self.share, 4),
            "lost_gpu_hours_per_hour": round(self.gpus, 2),
            "blamed": list(self.blamed),
            "nodes": sorted({fault.node for fault in self.faults}),
            "findings": [f"{fault.symptom}: {fault.cause}" for fault in self.faults],
        }


def losses(jobs: Iterable[JobState], faults: Iterable[Fault]) -> list[Loss]:
    """Every job that a fault concerns or that is held up, what loses most first."""
    every = sorted(faults, key=lambda fault: fault.order)
    found = (one for job in jobs for one in _of(job, every))
    return sorted(found, key=lambda one: (-one.gpus, -len(one.faults), -one.ranks, one.job))


def _of(job: JobState, faults: list[Fault]) -> Iterator[Loss]:
    own = [fault for fault in faults if fault.subject.get("job") == job.name]
    # A server or another job on the same node is nothing to this one; its GPUs and host are.
    below = [
        fault
        for fault in faults
        if fault.node in job.nodes and not {"job", "server"} & fault.subject.keys()
    ]
    share = _share(job, own)
    if own or below or share >= FLOOR:
        concerned = tuple(sorted([*own, *below], key=lambda fault: fault.order))
        lost = share if own or share >= FLOOR else 0.0
        yield Loss(job.name, job.ranks, lost, concerned, _blamed(own, below, lost))


def _share(job: JobState, own: list[Fault]) -> float:
    if any(fault.symptom in STOPS for fault in own):
        return 1.0
    if not job.step:
        return 0.0
    return min(max(job.behind / job.step, 0.0), 1.0)


def _blamed(own: list[Fault], below: list[Fault], lost: float) -> tuple[str, ...]:
    """The slow rank's node; else, of a job that loses, the one node that is worst below it."""
    slow = {fault.subject.get("node", fault.node) for fault in own if fault.symptom in SLOWS}
    if slow or not lost:
        return tuple(sorted(slow))
    worst = below[0].severity if below else ""
    nodes = {fault.node for fault in below if fault.severity == worst}
    return tuple(nodes) if len(nodes) == 1 else ()
