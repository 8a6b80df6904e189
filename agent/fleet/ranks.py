"""The straggler rule over the ranks of all nodes: one slow rank, or a node whose ranks all are."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from gpudiag.agent.rules import RULES, _slow_rank, _slow_signals, _teams
from gpudiag.agent.rules._slow_signals import Signals
from gpudiag.agent.rules._teams import LAST, Named, Team
from gpudiag.agent.rules.contract import (
    Diagnosis,
    Evidence,
    Healthy,
    Limits,
    Rule,
    Suggestion,
    Verdict,
    subject,
)
from gpudiag.agent.window import Window

Where = Mapping[tuple[str, str], str]
"""The node of each (job, rank)."""

_STRAGGLER = RULES["straggler"]


def rule(where: Where) -> Rule:
    """The rule `straggler` for a window that holds the ranks of several nodes.

    Beside single ranks it names a node: its ranks are alike, so that none of them stands out from
    all others, and late together. Thresholds are the rule's own.
    """
    return replace(_STRAGGLER, check=partial(_check, where))


def _check(where: Where, window: Window, limits: Limits) -> Iterator[Verdict]:
    blamed: set[tuple[str, str]] = set()
    for team in _teams.teams(window, int(limits["bins"])):
        nodes = by_node(team, where)
        if nodes and len(team.ends) >= limits["bins"] / 2.0:
            for verdict in _of_nodes(window, team, nodes, limits, where):
                if isinstance(verdict, Diagnosis):
                    blamed.add((team.job, dict(verdict.subject)["node"]))
                yield verdict
    for verdict in _STRAGGLER.check(window, limits):
        pairs = dict(verdict.subject)
        job, rank = pairs.get("job", ""), pairs.get("rank", "")
        # Of a slow node one rank is the slowest by a hair: the node is the finding.
        echo = isinstance(verdict, Diagnosis) and (job, where.get((job, rank), "")) in blamed
        yield Healthy(verdict.subject) if echo else verdict


def by_node(team: Team, where: Where) -> Team | None:
    """The same team with nodes in place of ranks: their ranks' median; None with fewer than two.

    The share of collectives to which a node came last is its ranks' sum.
    """
    ranks: defaultdict[str, list[int]] = defaultdict(list)
    for at, rank in enumerate(team.ranks):
        ranks[where.get((team.job, rank), "")].append(at)
    ranks.pop("", None)
    if len(ranks) < 2:
        return None
    times = {
        metric: np.column_stack([_joined(metric, values[:, at]) for at in ranks.values()])
        for metric, values in team.times.items()
    }
    return replace(team, ranks=tuple(ranks), times=times, uuids={})


def _joined(metric: str, values: _teams.Floats) -> _teams.Floats:
    joined: _teams.Floats = values.sum(axis=1) if metric == LAST else np.median(values, axis=1)
    return joined


def _of_nodes(
    window: Window, team: Team, nodes: Team, limits: Limits, where: Where
) -> Iterator[Verdict]:
    signals = _slow_signals.signals(nodes, limits)
    named = signals.own or (signals.meeting if team.pipeline == 1 else None)
    for node in nodes.ranks:
        mine = [rank for rank in team.ranks if where.get((team.job, rank)) == node]
        if named and node == named.rank and len(mine) > 1:
            yield _diagnosis(window, team, nodes, signals, named, mine)
        else:
            yield Healthy(subject(job=team.job, node=node))


def _diagnosis(
    window: Window, team: Team, nodes: Team, signals: Signals, named: Named, mine: Sequence[str]
) -> Diagnosis:
    node = named.rank
    found = _why(window, team, mine, named.excess)
    sure = signals.confidence(node) - (0.1 if found.missing else 0.0)
    others = len(nodes.ranks) - 1
    text = (
        f"The {len(mine)} ranks of {team.job} on node {node} are {named.excess * 1e3:.0f} ms"
        f" slower in every step of {team.step * 1e3:.0f} ms than those of"
        f" {others} other node{'s' if others > 1 else ''}"
    )
    because = f": {found.words}" if found.words else "; nothing measured there explains it"
    return Diagnosis(
        subject=subject(job=team.job, node=node),
        cause=found.cause,
        confidence=round(max(sure, 0.3), 2),
        summary=f"{text}{because}.",
        evidence=(*_evidence(nodes, node), *found.evidence),
        rivals=tuple(found.rivals),
        missing=tuple(found.missing),
        actions=_ACTIONS,
    )


def _why(window: Window, team: Team, mine: Sequence[str], seconds: float) -> _slow_rank.Why:
    """What explains one of the node's ranks beside those of other nodes; the surest of them all."""
    others = [rank for rank in team.ranks if rank not in mine]
    best: _slow_rank.Why | None = None
    for rank in mine:
        found = _slow_rank.why(window, _without(team, (rank, *others)), rank, seconds)
        if found.words:
            return found
        best = best or found
    return best or _slow_rank.Why()


def _without(team: Team, kept: Sequence[str]) -> Team:
    at = [team.ranks.index(rank) for rank in kept]
    times = {metric: values[:, at] for metric, values in team.times.items()}
    uuids = {rank: team.uuids[rank] for rank in kept if rank in team.uuids}
    return replace(team, ranks=tuple(kept), times=times, uuids=uuids)


def _evidence(nodes: Team, node: str) -> Iterator[Evidence]:
    at = nodes.ranks.index(node)
    for metric in (_teams.LAG, _teams.COMM, _teams.COMPUTE, _teams.DATA):
        if nodes.known(metric):
            usual = _teams.typical(nodes.times[metric])
            peers = float(np.median(np.delete(usual, at)))
            labels = {"job": nodes.job, "node": node}
            expected = f"{peers:.3g}, as other nodes"
            yield Evidence(metric, round(float(usual[at]), 5), "seconds", expected, labels)


_ACTIONS = (
    Suggestion("observe", "Compare the node with another: clocks, CPU load, mounts, its switch."),
    Suggestion("notify", "Tell the job's owner which node it is, with the evidence."),
    Suggestion("drain", "At the next checkpoint let the job go on without this node."),
)
