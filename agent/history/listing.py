"""What a server has of what rules read, in one look: nodes, their targets, series and names."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from gpudiag.agent.history import labels as spelling
from gpudiag.agent.history.client import Client, matcher
from gpudiag.agent.history.failing import ServerError, TooMuch
from gpudiag.agent.history.labels import Target
from gpudiag.agent.history.names import is_work, wanted
from gpudiag.agent.history.nodes import NAMING, Places, host_of, places
from gpudiag.agent.recording.timeline import SeriesKey
from gpudiag.probes import Labels

POD_INFO = "kube_pod_info"
UNAME = "node_uname_info"
BESIDE = (POD_INFO, UNAME, "up")
"""Not for rules: who runs where, what node_exporter calls its node, who scrapes."""

MAX_SERIES = 2_000_000
_NAMES_AT_ONCE = 200


@dataclass(frozen=True, slots=True)
class Source:
    """Series of one node that one selector meets: labels that are equal, and names."""

    where: tuple[tuple[str, str], ...]
    names: tuple[str, ...]
    series: int


@dataclass(frozen=True, slots=True)
class Node:
    """One node with what is asked for it."""

    name: str
    sources: tuple[Source, ...]

    @property
    def series(self) -> int:
        """How many series it has."""
        return sum(source.series for source in self.sources)

    @property
    def names(self) -> frozenset[str]:
        """The names of metrics it has."""
        return frozenset(name for source in self.sources for name in source.names)


@dataclass(frozen=True, slots=True)
class Chosen:
    """What the caller asks for; an empty one is no filter. `job` is a training job's name."""

    job: str = ""
    node: str = ""
    namespace: str = ""

    def takes(self, metric: str, labels: Labels) -> bool:
        """Whether a series on a chosen node is of the chosen work, or of no work at all."""
        if self.job and dict(spelling.own(metric, labels)).get("job", self.job) != self.job:
            return False
        spaces = namespaces(labels)
        return not (self.namespace and is_work(metric) and spaces and self.namespace not in spaces)


@dataclass(frozen=True, slots=True)
class Listing:
    """The nodes by name, where their series are found, and what was there beside them.

    `targets` are the scrapes of `up`; `twice` counts series that two scrapers tell.
    """

    nodes: tuple[Node, ...]
    places: Places
    names: frozenset[str]
    targets: frozenset[Target]
    twice: int = 0
    exported: bool = False
    warnings: tuple[str, ...] = ()


@dataclass(slots=True)
class _Seen:
    series: list[SeriesKey] = field(default_factory=list)
    beside: dict[str, list[Labels]] = field(default_factory=lambda: defaultdict(list))
    warnings: list[str] = field(default_factory=list)


def listing(client: Client, start: float, end: float, chosen: Chosen) -> Listing:
    """Look at what there is between two times; raises `ServerError`."""
    names = _present(client, start, end)
    seen = _Seen()
    for some in _in_pieces(sorted(names | set(BESIDE)), _NAMES_AT_ONCE):
        _list(client, some, start, end, seen)
    unames = [(UNAME, labels) for labels in seen.beside[UNAME]]
    known = places([*seen.series, *unames], seen.beside[POD_INFO])
    series = list(_meant(seen.series, known, chosen))
    return Listing(
        nodes=_nodes(series, known),
        places=known,
        names=frozenset(name for name, _ in seen.series) | _filled(seen.beside),
        targets=frozenset(map(spelling.target, seen.beside["up"])),
        twice=_twice(series),
        exported=any(n.startswith(spelling.EXPORTED) for _, one in series for n, _ in one),
        warnings=tuple(dict.fromkeys(seen.warnings)),
    )


def _filled(beside: Mapping[str, Sequence[Labels]]) -> frozenset[str]:
    return frozenset(name for name, several in beside.items() if several)


def _present(client: Client, start: float, end: float) -> frozenset[str]:
    try:
        listed = client.label_values("__name__", start, end)
    except TooMuch:
        # A server with very many names: those that are not there cost nothing to ask for.
        return wanted()
    return wanted() & frozenset(listed.found)


def _list(client: Client, names: Sequence[str], start: float, end: float, seen: _Seen) -> None:
    try:
        listed = client.series([matcher(names, {})], start, end)
    except TooMuch:
        if len(names) == 1:
            raise
        half = len(names) // 2
        _list(client, names[:half], start, end, seen)
        _list(client, names[half:], start, end, seen)
        return
    seen.warnings += listed.warnings
    for name, labels in listed.found:
        if name in BESIDE:
            seen.beside[name].append(labels)
        else:
            seen.series.append((name, labels))
    if len(seen.series) > MAX_SERIES:
        raise ServerError(
            f"{client.url} has more than {MAX_SERIES} series that rules read: ask for some nodes"
            " with --node, or for less time with --since"
        )


def _meant(series: Iterable[SeriesKey], known: Places, chosen: Chosen) -> Iterator[SeriesKey]:
    """The series of nodes that the filters leave; on those, all hardware and the chosen work."""
    found = list(series)
    where = _where(found, known, chosen)
    for metric, labels in found:
        if known.node(labels) in where and chosen.takes(metric, labels):
            yield metric, labels


def _where(found: Iterable[SeriesKey], known: Places, chosen: Chosen) -> set[str]:
    nodes = set()
    jobs, spaces = set(), set()
    for metric, labels in found:
        node = known.node(labels)
        if not chosen.node or node == chosen.node or host_of(node) == chosen.node:
            nodes.add(node)
        if chosen.job and dict(spelling.own(metric, labels)).get("job") == chosen.job:
            jobs.add(node)
        if chosen.namespace and chosen.namespace in namespaces(labels):
            spaces.add(node)
    nodes = nodes & jobs if chosen.job else nodes
    return nodes & spaces if chosen.namespace else nodes


def namespaces(labels: Labels) -> set[str]:
    """What namespaces its labels name: the pod's own, the exporter's."""
    return {value for name, value in labels if name in ("namespace", "exported_namespace")}


def _nodes(series: Iterable[SeriesKey], known: Places) -> tuple[Node, ...]:
    """Each node with its targets as selectors."""
    groups: defaultdict[str, defaultdict[Labels, Counter[str]]]
    groups = defaultdict(lambda: defaultdict(Counter))
    for metric, labels in series:
        groups[known.node(labels)][_where_asked(labels, known)][metric] += 1
    return tuple(
        Node(
            name,
            tuple(
                Source(where, tuple(sorted(count)), count.total())
                for where, count in sorted(sources.items())
            ),
        )
        for name, sources in sorted(groups.items())
    )


def _where_asked(labels: Labels, known: Places) -> Labels:
    """The labels that a selector needs to meet this node's part of the target and little else."""
    scrape = tuple(pair for pair in labels if pair[0] == "instance")
    if scrape and spelling.target(labels) in known.targets:
        return scrape
    naming = (p for p in labels if p[0].removeprefix(spelling.EXPORTED) in NAMING)
    return tuple(sorted((*scrape, *naming)))


def _twice(series: Iterable[SeriesKey]) -> int:
    """Series that are there more than once, but for who scraped them."""
    told = Counter(
        (metric, spelling.own(metric, labels), spelling.target(labels)[1])
        for metric, labels in series
    )
    return sum(count - 1 for count in told.values())


def _in_pieces(names: Sequence[str], size: int) -> Iterator[Sequence[str]]:
    yield from (names[at : at + size] for at in range(0, len(names), size))
