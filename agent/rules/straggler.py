"""One rank is slower than its peers, step after step, and all wait for it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gpudiag.agent.rules import _slow_rank, _slow_signals, _teams
from gpudiag.agent.rules._slow_rank import Why
from gpudiag.agent.rules._slow_signals import Signals
from gpudiag.agent.rules._teams import COMM, COMPUTE, DATA, LAG, LAST, STEP, Named, Team
from gpudiag.agent.rules.contract import (
    Diagnosis,
    Evidence,
    Healthy,
    Limits,
    Rule,
    Subject,
    Suggestion,
    Threshold,
    Unknown,
    Verdict,
    subject,
)
from gpudiag.agent.window import Window


def check(window: Window, limits: Limits) -> Iterator[Verdict]:
    """Judge every job of which two ranks that do the same work are seen."""
    by_job: dict[str, list[tuple[Team, Signals]]] = {}
    for team in _teams.teams(window, int(limits["bins"])):
        if len(team.ends) >= limits["bins"] / 2.0:
            by_job.setdefault(team.job, []).append((team, _slow_signals.signals(team, limits)))
    for found in by_job.values():
        # A slow worker delays its whole pipeline, so that in every stage one rank waits least:
        # where any rank computes longer, it is the cause and these are its echoes.
        worker = any(signals.own for _, signals in found)
        for team, signals in found:
            yield from _of_team(window, team, signals, worker=worker)
    for job, seen, world in _teams.alone(window):
        yield Unknown(_job(job), (f"the other ranks' series: {seen} of {world} is seen here",))


def _of_team(window: Window, team: Team, signals: Signals, *, worker: bool) -> Iterator[Verdict]:
    named = signals.meeting or signals.own if team.pipeline == 1 else signals.own
    if named is None and not (team.known(COMM) or team.known(LAG)):
        yield Unknown(_job(team.job), (f"{COMM} or {LAG}: all phases take the same on every rank",))
        return
    if named is None and signals.meeting and not worker and not team.known(COMPUTE):
        yield Unknown(_job(team.job), (f"{COMPUTE}: which stage the delay comes from",))
        return
    for rank in team.ranks:
        if named and rank == named.rank:
            yield _diagnosis(window, team, signals, named)
        else:
            yield Healthy(_rank(team.job, rank))


def _diagnosis(window: Window, team: Team, signals: Signals, named: Named) -> Diagnosis:
    kinds = (signals.late, signals.calm, signals.busy, signals.starved)
    seconds = max(kind.excess for kind in kinds if kind and kind.rank == named.rank)
    found = _slow_rank.why(window, team, named.rank, seconds)
    confidence = signals.confidence(named.rank) - (0.1 if found.missing else 0.0)
    return Diagnosis(
        subject=_rank(team.job, named.rank),
        cause=found.cause,
        confidence=round(max(confidence, 0.3), 2),
        summary=_summary(team, named.rank, seconds, found),
        evidence=(*_evidence(team, named.rank), *found.evidence),
        rivals=tuple(found.rivals),
        missing=tuple(found.missing),
        actions=_ACTIONS,
        since=_since(team, signals, named),
    )


def _summary(team: Team, rank: str, seconds: float, found: Why) -> str:
    peers = len(team.ranks) - 1
    others = f"the {peers} ranks beside it wait" if peers > 1 else "the other rank waits"
    text = (
        f"Rank {rank} of {team.job or 'the job'} is {seconds * 1e3:.0f} ms slower in every step of"
        f" {team.step * 1e3:.0f} ms, and {others}"
    )
    if found.words:
        return f"{text}: {found.words}."
    return f"{text}; nothing that is measured of its GPU or host explains it."


def _evidence(team: Team, rank: str) -> Iterator[Evidence]:
    at = team.ranks.index(rank)
    labels = {"job": team.job, "rank": rank}
    for metric in (LAG, LAST, COMM, COMPUTE, DATA, STEP):
        if team.known(metric):
            usual = _teams.typical(team.times[metric])
            peers = float(np.median(np.delete(usual, at)))
            unit = "ratio" if metric == LAST else "seconds"
            expected = f"{peers:.3g}, as its peers"
            yield Evidence(metric, round(float(usual[at]), 5), unit, expected, labels)


def _since(team: Team, signals: Signals, named: Named) -> float:
    """The oldest of the bins looked at in which it already stood out."""
    shown = ((signals.late, LAG), (signals.calm, COMM), (signals.busy, COMPUTE))
    metric = next((m for kind, m in shown if kind and kind.rank == named.rank), DATA)
    sign = -1.0 if metric == COMM else 1.0
    over = _teams.excess(sign * team.times[metric])[:, team.ranks.index(named.rank)]
    first = int(np.argmax(over >= named.excess / 2.0))
    return max(float(team.ends[first] - team.width), team.began)


def _job(job: str) -> Subject:
    return subject(job=job)


def _rank(job: str, rank: str) -> Subject:
    return subject(job=job, rank=rank)


_ACTIONS = (
    Suggestion("observe", "Look at the rank's own code path first: logging, saving, printing."),
    Suggestion("notify", "Tell the job's owner which rank and GPU it is, with the evidence."),
    Suggestion("drain", "Where the hardware is the cause, move the rank to another GPU or node."),
)

RULE = Rule(
    check=check,
    reads=_teams.READS | _slow_rank.READS,
    clear=60.0,
    thresholds={
        "floor": Threshold(
            0.07, "ratio", "of a step; below 5 to 10 % lie placement and noise, whatever the sigmas"
        ),
        "share": Threshold(
            0.75,
            "ratio",
            "of the time the same rank; a slow worker is it in all steps",
        ),
        "sigmas": Threshold(3.5, "count", "beyond the scatter of the others, from four ranks on"),
        "bins": Threshold(12.0, "count", "stretches looked at, 5 s each or three readings of two"),
    },
)
