"""Which node to take out first: the one that gives the most work back for the least taken away."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpudiag.agent.fleet.losses import SLOWS, Loss
from gpudiag.agent.fleet.model import Fault, NodeState
from gpudiag.agent.fleet.sharing import Shared


@dataclass(frozen=True, slots=True)
class Drain:
    """A node worth draining. `gains` GPUs' worth of work come back, `costs` sound GPUs stand idle.

    `why` are the reasons, the weightiest first; `first` names what it shares with other nodes,
    where mending that comes before draining one of them.
    """

    node: str
    gains: float
    costs: int
    why: tuple[str, ...]
    first: str = ""

    def to_json(self) -> dict[str, Any]:
        """The line that stands for it."""
        return {
            "kind": "drain",
            "node": self.node,
            "gains_gpus": round(self.gains, 2),
            "idles_gpus": self.costs,
            "why": list(self.why),
            "first": self.first,
        }


def drains(
    nodes: Mapping[str, NodeState],
    faults: Iterable[Fault],
    losses: Sequence[Loss],
    shared: Sequence[Shared],
) -> list[Drain]:
    """Nodes by what draining them gains, then by what it costs.

    A node gains what the jobs lose to it and its GPUs with critical faults, which fail or will.
    """
    by_node: defaultdict[str, list[Fault]] = defaultdict(list)
    for fault in faults:
        by_node[fault.subject.get("node", fault.node)].append(fault)
    names = {*by_node, *(node for loss in losses for node in loss.blamed)}
    found = (one for name in names for one in _of(name, nodes, by_node[name], losses, shared))
    return sorted(found, key=lambda one: (-one.gains, one.costs, one.node))


def _of(
    name: str,
    nodes: Mapping[str, NodeState],
    faults: Sequence[Fault],
    losses: Sequence[Loss],
    shared: Sequence[Shared],
) -> Iterator[Drain]:
    mine = [loss for loss in losses if name in loss.blamed]
    broken = {
        fault.subject["uuid"]: fault
        for fault in faults
        if fault.severity == "critical" and "uuid" in fault.subject
    }
    gains = sum(loss.gpus / len(loss.blamed) for loss in mine) + len(broken)
    if gains:
        gpus = nodes[name].gpus if name in nodes else 0
        why = (*map(_lost, mine), *_broken(broken))
        yield Drain(name, gains, max(gpus - len(broken), 0), why, _first(name, shared))


def _lost(loss: Loss) -> str:
    slow = sorted(loss.faults, key=lambda fault: fault.symptom not in SLOWS)
    cause = next((f"{fault.symptom} ({fault.cause})" for fault in slow), "the others wait for it")
    return (
        f"{loss.job} ({loss.ranks} GPUs) loses {loss.share:.0%} of each step to it,"
        f" {loss.gpus:.1f} GPUs' worth: {cause}"
    )


def _broken(broken: Mapping[str, Fault]) -> Iterator[str]:
    causes: defaultdict[str, int] = defaultdict(int)
    for fault in broken.values():
        causes[f"{fault.symptom} ({fault.cause})"] += 1
    for cause, count in sorted(causes.items(), key=lambda one: (-one[1], one[0])):
        yield f"{count} GPU{'s' if count > 1 else ''} with {cause}"


def _first(name: str, shared: Iterable[Shared]) -> str:
    for one in shared:
        if name in one.nodes:
            others = len(one.nodes) - 1
            return f"{one.label}={one.value}: {others} other nodes there have {one.symptom} too"
    return ""
