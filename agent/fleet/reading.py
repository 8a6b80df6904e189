"""A fleet as a server knows it at one moment: from recording rules, else asked plainly."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from gpudiag.agent.fleet import queries
from gpudiag.agent.fleet.model import Fault, JobState, NodeState
from gpudiag.agent.fleet.placing import placed
from gpudiag.agent.fleet.queries import Recorded
from gpudiag.agent.history.answers import merged
from gpudiag.agent.history.client import Client
from gpudiag.agent.history.labels import EXPORTED
from gpudiag.agent.history.nodes import Places
from gpudiag.probes.catalog import SEVERITIES

Labels = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Read:
    """What was found. `plain` names what no rule records; `blind` has symptoms that cannot be told
    with the number of their nodes.
    """

    nodes: Mapping[str, NodeState]
    jobs: Mapping[str, JobState]
    faults: tuple[Fault, ...]
    blind: Mapping[str, int]
    plain: tuple[str, ...]
    warnings: tuple[str, ...] = ()


def read(client: Client, at: float) -> Read:
    """Ask for everything as of `at` (epoch seconds); raises `ServerError`."""
    return _Reader(client, at).read()


@dataclass(slots=True)
class _Reader:
    client: Client
    at: float
    plain: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def read(self) -> Read:
        """One question after another: fleets are large, and servers count what runs at once."""
        nodes, jobs = self._nodes(), self._jobs()
        blind: defaultdict[str, set[str]] = defaultdict(set)
        for labels, _ in self._ask(queries.BLIND):
            blind[labels.get("symptom", "")].add(node_of(labels))
        return Read(
            nodes,
            jobs,
            tuple(sorted(self._faults(), key=lambda fault: fault.order)),
            {symptom: len(where) for symptom, where in sorted(blind.items())},
            tuple(self.plain),
            merged(self.warnings),
        )

    def _ask(self, expr: str) -> list[tuple[dict[str, str], float]]:
        answer = self.client.instant(expr, self.at)
        self.warnings += answer.warnings
        return [(dict(s.labels), float(s.values[-1])) for s in answer.series if len(s.values)]

    def _recorded(self, rule: Recorded) -> list[tuple[dict[str, str], float]]:
        found = self._ask(rule.name)
        if not found:
            found = self._ask(rule.expr)
            self.plain += [rule.name] if found else []
        return found

    def _nodes(self) -> dict[str, NodeState]:
        gpus = self._most(queries.GPUS)
        expected = self._most(queries.EXPECTED)
        busy = {node_of(labels): value for labels, value in self._recorded(queries.BUSY)}
        gone = {node_of(labels) for labels, _ in self._ask(queries.GONE)}
        places = self._places()
        return {
            name: NodeState(
                name,
                int(gpus.get(name, 0.0)),
                int(expected.get(name, 0.0)),
                busy.get(name),
                places.get(name, {}),
                up=name not in gone,
            )
            for name in sorted({*gpus, *expected, *busy, *gone, *places})
        }

    def _most(self, expr: str) -> dict[str, float]:
        """By node; a node and a sidecar on it both count its GPUs, the node sees them all."""
        found: dict[str, float] = {}
        for labels, value in self._ask(expr):
            found[node_of(labels)] = max(value, found.get(node_of(labels), 0.0))
        return found

    def _places(self) -> dict[str, dict[str, str]]:
        """The labels of each node with an agent, from whatever tells them."""
        agents = self._ask(queries.AGENTS)
        known = {node_of(labels) for labels, _ in agents}
        beside = [self._recorded(queries.VERSIONS), *map(self._ask, queries.PLACES)]
        rows = [(node_of(labels), labels) for several in (agents, *beside) for labels, _ in several]
        return placed((node, labels) for node, labels in rows if node in known)

    def _jobs(self) -> dict[str, JobState]:
        ranks: defaultdict[str, dict[str, int]] = defaultdict(dict)
        for labels, value in self._recorded(queries.RANKS):
            on = ranks[job_of(labels)]
            on[node_of(labels)] = on.get(node_of(labels), 0) + int(value)
        step = {job_of(labels): value for labels, value in self._recorded(queries.STEP)}
        waited = {job_of(labels): value for labels, value in self._recorded(queries.WAITED)}
        computed = {job_of(labels): value for labels, value in self._recorded(queries.BEHIND)}
        # Pipelines wait unevenly by design: waiting tells only where computing is not measured.
        behind = waited | computed
        return {
            job: JobState(job, nodes, step.get(job), behind.get(job, 0.0))
            for job, nodes in sorted(ranks.items())
        }

    def _faults(self) -> Iterator[Fault]:
        for labels, confidence in self._ask(queries.FINDINGS):
            severity = labels.get("severity")
            yield Fault(
                node_of(labels),
                labels.get("symptom", ""),
                labels.get("cause", ""),
                severity if severity in SEVERITIES else "warning",
                confidence,
                subject(labels.get("subject", "")),
            )


def subject(text: str) -> dict[str, str]:
    """The pairs of a finding's subject as its label has them: `job=llama,rank=3`."""
    pairs: dict[str, str] = {}
    last = ""
    for part in text.split(","):
        name, equals, value = part.partition("=")
        if equals:
            pairs[name], last = value, name
        elif last:
            # A comma within a value, as a mount point may have one.
            pairs[last] += f",{part}"
    return pairs


def node_of(labels: Labels) -> str:
    """The node that labels name, else the address that was scraped."""
    return Places().node(tuple(labels.items()))


def job_of(labels: Labels) -> str:
    """The training job, also where a scrape without honor_labels renamed its label."""
    return labels.get(EXPORTED + "job") or labels.get("job", "")
