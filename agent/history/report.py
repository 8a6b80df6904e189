"""What was found, as data that a terminal, JSON and a page show alike: episodes, worst first."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gpudiag.agent.findings.finding import Finding
from gpudiag.agent.history.diagnosing import Diagnosed
from gpudiag.agent.history.judging import Judged
from gpudiag.agent.history.presence import Presence
from gpudiag.agent.history.traces import Trace
from gpudiag.probes.catalog import gravity


@dataclass(frozen=True, slots=True)
class Episode:
    """One finding on one node with each time it fired; `last` is how it stood then.

    `times` are (raised, resolved or None where it still fires) in epoch seconds, oldest first.
    """

    node: str
    last: Finding
    times: tuple[tuple[float, float | None], ...]
    traces: tuple[Trace, ...] = ()

    @property
    def firing(self) -> bool:
        """Whether it still fired at the end."""
        return self.times[-1][1] is None

    def to_json(self) -> dict[str, Any]:
        """A finding's JSON with the node, the state at the end, and all its times."""
        spans = [{"raised_at": raised, "resolved_at": ended} for raised, ended in self.times]
        state = "firing" if self.firing else "resolved"
        return self.last.to_json() | {"node": self.node, "state": state, "times": spans}


def episodes(found: Diagnosed) -> list[Episode]:
    """Every finding of every node, `in_order`."""
    return in_order(one for node in found.nodes for one in _of(node))


def in_order(told: Iterable[Episode]) -> list[Episode]:
    """The worst first, then the surest, then the first; last what others explain."""
    return sorted(
        told,
        key=lambda one: (
            bool(one.last.explained_by),
            -gravity(one.last.severity),
            -one.last.confidence,
            one.times[0][0],
            one.node,
        ),
    )


def _of(node: Judged) -> Iterator[Episode]:
    told: defaultdict[str, dict[float, dict[str, Finding]]] = defaultdict(dict)
    for finding in node.findings:
        if finding.raised_at is not None:
            told[finding.id].setdefault(finding.raised_at, {})[finding.state] = finding
    for name, by_time in told.items():
        times = tuple((at, _resolved(states)) for at, states in sorted(by_time.items()))
        newest = by_time[times[-1][0]]
        last = newest.get("firing") or newest["resolved"]
        yield Episode(node.node, last, times, tuple(node.traces.get(name, ())))


def _resolved(states: Mapping[str, Finding]) -> float | None:
    return states["resolved"].resolved_at if "resolved" in states else None


@dataclass(frozen=True, slots=True)
class Untold:
    """A symptom that cannot be told on some nodes, and what would tell."""

    symptom: str
    nodes: tuple[str, ...]
    missing: tuple[str, ...]
    by_exporter: bool = False

    def to_json(self) -> dict[str, Any]:
        """The line that stands for it beside the findings."""
        return {
            "symptom": self.symptom,
            "state": "unknown",
            "nodes": list(self.nodes),
            "missing": list(self.missing),
        }


def untold(found: Diagnosed, there: Presence) -> list[Untold]:
    """What rules could not tell at the end, and what no exporter gives though one could."""
    by_symptom: defaultdict[tuple[str, tuple[str, ...]], list[str]] = defaultdict(list)
    for node in found.nodes:
        for blind in node.blind:
            by_symptom[blind.symptom, blind.missing].append(node.node)
    said = [
        Untold(symptom, tuple(nodes), missing)
        for (symptom, missing), nodes in sorted(by_symptom.items())
    ]
    switched_off = [
        Untold(gap.symptom, gap.nodes, (gap.missing,), by_exporter=True)
        for gap in there.gaps
        if gap.fields
    ]
    return said + switched_off


def failed(found: Diagnosed) -> list[Judged]:
    """The nodes that were not judged to the end."""
    return [node for node in found.nodes if node.failed]
