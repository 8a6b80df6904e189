"""A closer look at one job: the last ten minutes of all its ranks, through the straggler rule."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from gpudiag.agent.engine import Engine, window_for
from gpudiag.agent.findings.book import Book
from gpudiag.agent.findings.finding import Finding
from gpudiag.agent.fleet import ranks
from gpudiag.agent.history.answers import Series
from gpudiag.agent.history.client import Client, quoted
from gpudiag.agent.history.failing import TooMuch
from gpudiag.agent.history.fetching import columns
from gpudiag.agent.history.labels import EXPORTED
from gpudiag.agent.history.nodes import places
from gpudiag.agent.recording.timeline import timeline
from gpudiag.agent.rules import RULES, _slow_rank, _teams, default_limits
from gpudiag.probes.catalog.dialects import dialects

BACK = _teams.BACK + 60.0
PEERS = 16
"""GPUs of other ranks whose hardware is looked at beside the slow one's."""

_SHORTEST = 60.0

_OF_RANKS = sorted(_teams.READS | {_teams.INFO, _slow_rank.SWITCHES, _slow_rank.DEPTH})
_MORE = {_slow_rank.LINK_UP, f"{_slow_rank.GENERATION}_max", f"{_slow_rank.WIDTH}_max"}
_OF_GPUS = sorted((_slow_rank.READS | _MORE) - set(_OF_RANKS))


@dataclass(frozen=True, slots=True)
class Placed:
    """A finding on a rank or node, and the node it is on."""

    node: str
    finding: Finding


def look(client: Client, job: str, at: float) -> tuple[Placed, ...]:
    """What holds the job up at `at`: findings on a rank or on a node; raises `ServerError`.

    The cause is sought in a second look, at the GPUs of the slow rank or node and of some others.
    """
    told = _ranks(client, job, at)
    known = places((one.metric, one.labels) for one in told)
    where = {
        (job, dict(one.labels).get("rank", "")): known.node(one.labels)
        for one in told
        if one.metric in (_teams.INFO, _teams.STEP)
    }
    found = _judged(where, told, at)
    if not found:
        return ()
    wanted = _uuids(found, where, _gpus(told))
    found = _judged(where, [*told, *_hardware(client, wanted, at)], at)
    return tuple(Placed(_node(finding, where), finding) for finding in found)


def _node(finding: Finding, where: ranks.Where) -> str:
    pairs = dict(finding.subject)
    return pairs.get("node") or where.get((pairs.get("job", ""), pairs.get("rank", "")), "")


def _ranks(client: Client, job: str, at: float) -> list[Series]:
    for label in ("job", EXPORTED + "job"):
        found = [
            one
            for metric in _OF_RANKS
            for one in _raw(client, f"{metric}{{{label}={quoted(job)}}}", at - BACK, at)
        ]
        if found:
            return found
    return []


def _hardware(client: Client, uuids: Sequence[str], at: float) -> list[Series]:
    if not uuids:
        return []
    either = quoted("|".join(uuids))
    foreign = sorted({n for d in dialects() for n, ms in d.meanings.items() if _named(ms)})
    found: list[Series] = []
    for names, label in ((_OF_GPUS, "uuid"), (foreign, "UUID")):
        selector = f'{{__name__=~"{"|".join(names)}",{label}=~{either}}}'
        found += _raw(client, selector, at - BACK, at)
    return found


def _raw(client: Client, selector: str, start: float, end: float) -> list[Series]:
    """Its samples; of a job of many thousand ranks in pieces that the server will give."""
    try:
        return list(client.raw(selector, start, end).series)
    except TooMuch:
        if end - start < _SHORTEST:
            raise
    middle = (start + end) / 2.0
    return _raw(client, selector, start, middle) + _raw(client, selector, middle, end)


def _named(meanings: Iterable[object]) -> bool:
    return any(getattr(meaning, "to", "") in _OF_GPUS for meaning in meanings)


def _judged(where: ranks.Where, told: Iterable[Series], at: float) -> tuple[Finding, ...]:
    rule = ranks.rule(where)
    rules = {"straggler": rule}
    engine = Engine(rules, {"straggler": default_limits(rule)}, window_for(rules), Book(RULES))
    made, _ = columns(told, at - BACK, frozenset())
    engine.ingest(timeline(made, ()).samples(0, at)[0])
    return tuple(f for f in engine.evaluate(at) if f.state == "firing")


def _gpus(told: Iterable[Series]) -> dict[str, str]:
    """The GPU of each rank."""
    named = (dict(one.labels) for one in told if one.metric == _teams.INFO)
    return {of.get("rank", ""): of["uuid"] for of in named if of.get("uuid")}


def _uuids(found: Iterable[Finding], where: ranks.Where, gpus: Mapping[str, str]) -> list[str]:
    """The GPUs that are blamed, those beside them on their nodes, and some of other nodes."""
    node_of = {rank: node for (_, rank), node in where.items()}
    blamed = {_node(finding, where) for finding in found}
    mine = [uuid for rank, uuid in gpus.items() if node_of.get(rank) in blamed]
    others = [uuid for rank, uuid in gpus.items() if node_of.get(rank) not in blamed]
    every = max(1, len(others) // PEERS)
    return mine + others[::every][:PEERS]
