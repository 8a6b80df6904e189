"""The whole picture of a fleet at one moment, worst first, and the part of it that is asked for."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from gpudiag.agent.fleet import closer
from gpudiag.agent.fleet.closer import Placed
from gpudiag.agent.fleet.draining import Drain, drains
from gpudiag.agent.fleet.losses import FLOOR, SLOWS, STRAGGLER, Loss, losses
from gpudiag.agent.fleet.model import Fault, JobState, NodeState
from gpudiag.agent.fleet.reading import Read, read
from gpudiag.agent.fleet.sharing import Shared, shared
from gpudiag.agent.history.client import Client
from gpudiag.agent.history.failing import ServerError
from gpudiag.probes.catalog import Severity, gravity

CLOSER = 5
"""Jobs of which all ranks are looked at: those that lose most. The rest is told from figures."""


@dataclass(frozen=True, slots=True)
class View:
    """A fleet at `at` (epoch seconds). `echoes` counts findings that another one stands for."""

    at: float
    read: Read
    nodes: tuple[NodeState, ...]
    faults: tuple[Fault, ...]
    losses: tuple[Loss, ...]
    shared: tuple[Shared, ...]
    drains: tuple[Drain, ...]
    echoes: int = 0

    @property
    def gone(self) -> tuple[str, ...]:
        """The nodes whose agent was there within the hour and is no more."""
        return tuple(node.name for node in self.nodes if not node.up)


@dataclass(frozen=True, slots=True)
class Chosen:
    """The part that is asked for; an empty one is no filter. `severity` is the least shown."""

    job: str = ""
    node: str = ""
    severity: Severity = "info"


def view(client: Client, at: float) -> View:
    """Ask and judge; raises `ServerError`."""
    found = read(client, at)
    slow: list[Placed] = []
    for job in _held_up(found):
        try:
            slow += closer.look(client, job, at)
        except ServerError as error:
            # One job that cannot be looked at hides nothing of the others.
            found = replace(found, warnings=(*found.warnings, f"ranks of {job}: {error}"))
    faults = folded(found.faults, slow)
    lost = losses(found.jobs.values(), faults)
    by_fault: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for fault in faults:
        by_fault[fault.symptom, fault.cause].append(fault.node)
    places = {name: node.labels for name, node in found.nodes.items() if node.labels}
    common = shared(by_fault, places)
    return View(
        at,
        found,
        tuple(_worst_first(found.nodes.values(), faults)),
        faults,
        tuple(lost),
        tuple(common),
        tuple(drains(found.nodes, faults, lost, common)),
        len(found.faults) + len(slow) - len(faults),
    )


def folded(faults: Sequence[Fault], slow: Iterable[Placed]) -> tuple[Fault, ...]:
    """The faults with what was found across nodes in place of what single nodes made of it.

    A node that sees its own ranks only takes their waiting for a fault of the job as such.
    """
    across = [_fault(one) for one in slow]
    jobs = {fault.subject.get("job") for fault in across}
    # Where none stands out from all others, the ranks that do on their own nodes explain as much.
    slow_ranks = {f.subject.get("job") for f in faults if f.symptom == STRAGGLER}

    def echoes(fault: Fault) -> bool:
        job = fault.subject.get("job")
        rest = fault.symptom != STRAGGLER and job in slow_ranks
        return fault.symptom in SLOWS and (job in jobs or rest)

    kept = [fault for fault in faults if not echoes(fault)]
    return tuple(sorted([*kept, *across], key=lambda fault: fault.order))


def part(whole: View, chosen: Chosen) -> View:
    """What of the view is asked for. What is shared and its chance stay those of the whole."""
    on = set(whole.read.jobs[chosen.job].nodes) if chosen.job in whole.read.jobs else set()

    def takes(node: str) -> bool:
        return (not chosen.node or node == chosen.node) and (not chosen.job or node in on)

    least = gravity(chosen.severity)
    return replace(
        whole,
        nodes=tuple(node for node in whole.nodes if takes(node.name)),
        faults=tuple(
            fault
            for fault in whole.faults
            if takes(fault.node)
            and gravity(fault.severity) >= least
            and (not chosen.job or fault.subject.get("job", chosen.job) == chosen.job)
        ),
        losses=tuple(loss for loss in whole.losses if _meant(loss, whole.read.jobs, chosen)),
        shared=tuple(one for one in whole.shared if any(map(takes, one.nodes))),
        drains=tuple(one for one in whole.drains if takes(one.node)),
    )


def _meant(loss: Loss, jobs: Mapping[str, JobState], chosen: Chosen) -> bool:
    if chosen.job:
        return loss.job == chosen.job
    return not chosen.node or chosen.node in jobs[loss.job].nodes


def _held_up(found: Read) -> list[str]:
    said = {f.subject.get("job") for f in found.faults if f.symptom in SLOWS}
    return [job.name for job in sorted(_slow(found, said), key=_gpus_lost, reverse=True)][:CLOSER]


def _slow(found: Read, said: set[str | None]) -> Iterator[JobState]:
    for job in found.jobs.values():
        if len(job.nodes) > 1 and (job.name in said or job.behind >= FLOOR * (job.step or 1e9)):
            yield job


def _gpus_lost(job: JobState) -> float:
    return job.ranks * job.behind / job.step if job.step else 0.0


def _fault(one: Placed) -> Fault:
    of = one.finding
    subject = dict(of.subject)
    return Fault(one.node, of.symptom, of.cause, of.severity, of.confidence, subject, of.summary)


def _worst_first(nodes: Iterable[NodeState], faults: Iterable[Fault]) -> list[NodeState]:
    """Those with the worst findings, then those that are gone or lack GPUs."""
    of: defaultdict[str, list[Fault]] = defaultdict(list)
    for fault in faults:
        of[fault.node].append(fault)

    def key(node: NodeState) -> tuple[int, bool, bool, int, str]:
        mine = of[node.name]
        worst = max((gravity(f.severity) for f in mine), default=-1)
        return -worst, node.up, node.gpus >= node.expected, -len(mine), node.name

    return sorted(nodes, key=key)
