"""What the history of all nodes together says: who held jobs up, what faults share, what first."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import msgspec

from gpudiag.agent.fleet import placing, stretches
from gpudiag.agent.fleet.closer import Placed
from gpudiag.agent.fleet.draining import Drain, drains
from gpudiag.agent.fleet.losses import SLOWS, STRAGGLER, losses
from gpudiag.agent.fleet.model import Fault, JobState, NodeState
from gpudiag.agent.fleet.sharing import Shared, shared
from gpudiag.agent.fleet.stretches import Held
from gpudiag.agent.history.client import Client
from gpudiag.agent.history.diagnosing import Question
from gpudiag.agent.history.failing import ServerError
from gpudiag.agent.history.listing import Listing
from gpudiag.agent.history.report import Episode, in_order

_TELLING = (
    "up",
    "gpudiag_gpu_info",
    "kube_node_labels",
    "kube_node_info",
    "DCGM_FI_DEV_GPU_TEMP",
    "DCGM_FI_DEV_GPU_TEMP_CELSIUS",
)
"""Series that carry a node's labels: the target's own, the driver's version, the cluster's."""

_OVER = 600.0
"""A stretch that ended so near to the end of the history goes on: means lag by five minutes."""


@dataclass(frozen=True, slots=True)
class Across:
    """`episodes` are those of the nodes, echoes folded, with what only the whole shows.

    `drains` counts what is wrong at the end only. `failed` says why there is no more.
    """

    episodes: tuple[Episode, ...]
    held: tuple[Held, ...] = ()
    shared: tuple[Shared, ...] = ()
    drains: tuple[Drain, ...] = ()
    failed: str = ""


def across(question: Question, found: Listing, told: Sequence[Episode]) -> Across:
    """Judge the nodes together; a server that fails costs this part only."""
    if len(found.nodes) < 2:
        return Across(tuple(told))
    client = Client(question.access, question.patience)
    try:
        return _across(client, question, found, told)
    except ServerError as error:
        return Across(tuple(told), failed=str(error))
    finally:
        client.close()


def _across(client: Client, question: Question, found: Listing, told: Sequence[Episode]) -> Across:
    wanted, here = question.chosen.job, {node.name for node in found.nodes}

    def takes(job: JobState) -> bool:
        return (not wanted or job.name == wanted) and not here.isdisjoint(job.nodes)

    stood = stretches.held(client, question.start, question.end, takes)
    held = [_seen_by_nodes(one, told) for one in stood]
    whole = in_order([*_folded(told, held), *_only_across(told, held, question.end)])
    nodes = _nodes(client, question, found)
    common = shared(_by_fault(whole), {n: of.labels for n, of in nodes.items() if of.labels})
    faults = [_fault(episode) for episode in whole if episode.firing and _counts(episode)]
    # The share stands for the seconds: of a step of one second.
    jobs = [
        replace(one.job, step=1.0, behind=one.share)
        for one in held
        if one.end >= question.end - _OVER
    ]
    lost = losses(jobs, faults)
    return Across(
        tuple(whole),
        tuple(held),
        tuple(common),
        tuple(drains(nodes, faults, lost, common)),
    )


def _counts(episode: Episode) -> bool:
    return not episode.last.explained_by


def _by_fault(told: Iterable[Episode]) -> dict[tuple[str, str], list[str]]:
    found: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for episode in told:
        if _counts(episode):
            found[episode.last.symptom, episode.last.cause].append(episode.node)
    return found


def _fault(episode: Episode) -> Fault:
    of = episode.last
    return Fault(
        episode.node, of.symptom, of.cause, of.severity, of.confidence, dict(of.subject), of.summary
    )


def _folded(told: Iterable[Episode], held: Sequence[Held]) -> Iterator[Episode]:
    """A node that sees its own ranks only takes their waiting for a fault of the job as such."""
    for episode in told:
        job = dict(episode.last.subject).get("job", "")
        by = next((one for one in held if one.job.name == job and _during(episode, one)), None)
        names = [one.finding.id for one in by.found] if by else []
        if episode.last.symptom in SLOWS and names and episode.last.id not in names:
            last = msgspec.structs.replace(episode.last, explained_by=names[0])
            yield replace(episode, last=last)
        else:
            yield episode


def _seen_by_nodes(one: Held, told: Iterable[Episode]) -> Held:
    """Of two slow ranks at once none stands out from all others; each does on its node."""
    if one.found:
        return one
    slow = (e for e in told if _slow_rank_of(one.job.name, e) and _during(e, one))
    return replace(one, found=tuple(Placed(e.node, e.last) for e in slow))


def _slow_rank_of(job: str, episode: Episode) -> bool:
    of = episode.last
    return of.symptom == STRAGGLER and dict(of.subject).get("job") == job


def _during(episode: Episode, one: Held) -> bool:
    return any(
        began < one.end and (ended is None or ended > one.start) for began, ended in episode.times
    )


def _only_across(told: Iterable[Episode], held: Iterable[Held], end: float) -> Iterator[Episode]:
    """What no node saw by itself: a node whose ranks all are slow, a rank alone on its node."""
    known = {episode.last.id for episode in told}
    times: defaultdict[str, list[tuple[float, float | None]]] = defaultdict(list)
    last = {}
    for one in held:
        for placed in one.found:
            if placed.finding.id not in known:
                over = one.end if one.end < end - _OVER else None
                times[placed.finding.id].append((one.start, over))
                last[placed.finding.id] = placed
    for name, placed in last.items():
        yield Episode(placed.node, placed.finding, tuple(sorted(times[name], key=lambda t: t[0])))


def _nodes(client: Client, question: Question, found: Listing) -> dict[str, NodeState]:
    """The nodes with their labels and the number of their GPUs."""
    names = {node.name for node in found.nodes}
    gpus: defaultdict[str, set[str]] = defaultdict(set)
    rows = []
    for _, labels in client.series(_TELLING, question.start, question.end).found:
        node, named = found.places.node(labels), dict(labels)
        if node in names:
            rows.append((node, named))
            gpus[node] |= {named[key] for key in ("uuid", "UUID") if key in named}
    return {
        node: NodeState(node, len(gpus[node]), labels=labels)
        for node, labels in placing.placed(rows).items()
    }
