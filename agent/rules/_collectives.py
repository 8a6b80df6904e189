"""Which rank a hung collective waits for: by sequence numbers, watchdogs' words, or stacks."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from gpudiag.agent.rules._jobs import SEQUENCE, Job, last_advance
from gpudiag.agent.rules._train_words import Said
from gpudiag.agent.rules.contract import Evidence
from gpudiag.agent.window import Window
from gpudiag.probes import Event

READS = frozenset({SEQUENCE})
_IN_COLLECTIVE = re.compile(
    r"distributed_c10d|all_?reduce|all_?gather|reduce_?scatter|all_?to_?all|broadcast|barrier"
    r"|ncclKernel|\bwork\.wait|_sync_params|wait_stream",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Hang:
    """A collective that waits; `rank` is whom it waits for, "" where all have entered.

    `certain` is false where it may as well be the network or a rank that nobody told of.
    """

    since: float
    words: str
    confidence: float
    rank: str = ""
    certain: bool = True
    evidence: tuple[Evidence, ...] = ()
    missing: tuple[str, ...] = ()


class _Place(NamedTuple):
    """Where a rank stands in a group."""

    enqueued: float
    completed: float | None
    still: float


def by_sequence(window: Window, job: Job, seconds: float) -> Hang | None:
    """The hang that the sequence numbers show: something outstanding, and nothing that moves."""
    groups: defaultdict[str, dict[str, dict[str, tuple[float, float]]]] = defaultdict(dict)
    for series in window.series(SEQUENCE, seconds, job=job.name):
        of = series.labels
        if len(series.values):
            told = groups[of.get("group", "")].setdefault(of.get("rank", ""), {})
            told[of.get("state", "")] = (float(series.values[-1]), last_advance(series))
    places = {group: _places(ranks) for group, ranks in groups.items()}
    waiting = {
        rank
        for ranks in places.values()
        for rank, at in ranks.items()
        if at.completed is not None and at.completed < at.enqueued
    }
    if not waiting:
        return None
    hangs = [_of_group(group, ranks, waiting) for group, ranks in places.items()]
    found = [hang for hang in hangs if hang]
    # The group that waits for a rank which waits for nobody is where it began.
    found.sort(key=lambda hang: (not hang.rank, hang.since))
    moving = max(at.still for ranks in places.values() for at in ranks.values())
    if not found:
        return None
    return found[0] if found[0].since >= moving - 1.0 else _at(found[0], moving)


def _at(hang: Hang, since: float) -> Hang:
    return Hang(since, hang.words, hang.confidence, hang.rank, hang.certain, hang.evidence)


def _places(ranks: dict[str, dict[str, tuple[float, float]]]) -> dict[str, _Place]:
    found = {}
    for rank, told in ranks.items():
        if "enqueued" in told:
            done = told.get("completed")
            still = max(time for _, time in told.values())
            found[rank] = _Place(told["enqueued"][0], done[0] if done else None, still)
    return found


def _of_group(group: str, ranks: dict[str, _Place], waiting: set[str]) -> Hang | None:
    if not waiting & ranks.keys():
        return None
    since = max(at.still for at in ranks.values())
    most = max(at.enqueued for at in ranks.values())
    behind = [rank for rank, at in ranks.items() if at.enqueued < most]
    idle = [rank for rank in behind if rank not in waiting] or behind
    name = f" of group {group}" if group else ""
    evidence = tuple(
        Evidence(SEQUENCE, at.enqueued, "enqueued", f"{most:.0f}", {"group": group, "rank": rank})
        for rank, at in sorted(ranks.items(), key=lambda one: one[1].enqueued)[:4]
    )
    if idle:
        who = "rank " + " and ".join(sorted(idle, key=_number)[:3])
        words = (
            f"collective {most:.0f}{name} waits for {who}, which has not entered it (last"
            f" {ranks[idle[0]].enqueued:.0f})"
        )
        rank = min(idle, key=lambda r: (ranks[r].enqueued, _number(r)))
        return Hang(since, words, 0.9, rank, True, evidence)
    if len(ranks) < 2:
        words = f"collective {most:.0f}{name} waits; the other ranks' numbers are not seen here"
        return Hang(since, words, 0.6, "", False, evidence, (f"{SEQUENCE} of the other ranks",))
    words = (
        f"all ranks have entered collective {most:.0f}{name} and it completes on none: a stream"
        " that waits for another, or the network beneath"
    )
    return Hang(since, words, 0.8, "", True, evidence)


def _number(rank: str) -> int:
    return int(rank) if rank.isdigit() else 0


def by_words(job: Job, told: Sequence[tuple[Event, Said]]) -> Hang | None:
    """The hang that watchdogs and barriers told of: who complains, and of whom nobody heard."""
    since = told[0][0].time
    accused = [said.culprit for _, said in told if said.culprit]
    if accused:
        words = f"a barrier waited for rank {accused[0]} in vain"
        return Hang(since, words, 0.9, accused[0])
    numbers = {said.rank: said.sequence for _, said in told if said.rank and said.sequence}
    enqueued = {s.rank: s.enqueued for _, s in told if s.rank and s.enqueued is not None}
    operation = next((said.operation for _, said in told if said.operation), "a collective")
    at = max(numbers.values(), default=None)
    which = f"{operation} {at}" if at is not None else operation
    behind = [r for r, n in numbers.items() if at is not None and n < at]
    behind += [r for r, n in enqueued.items() if at is not None and n < at and r not in behind]
    if behind:
        words = f"{which} waits for rank {behind[0]}, which is at another collective"
        return Hang(since, words, 0.88, behind[0])
    silent = sorted(set(job.ranks) - set(numbers), key=_number) if numbers else []
    if numbers and silent and len(silent) <= max(1, len(job.ranks) // 4):
        words = f"{which} timed out on every rank but {silent[0]}, which never entered it"
        return Hang(since, words, 0.85, silent[0])
    if len(numbers) > 1 and not silent:
        words = f"{which} timed out on all ranks alike: all had entered it and it never completed"
        return Hang(since, words, 0.7, "")
    words = f"{which} timed out"
    missing = (f"{SEQUENCE} of all ranks, or the watchdog lines of the others",)
    return Hang(since, words, 0.6, "", True, (), missing)


def by_stacks(dumps: Sequence[tuple[Event, str]]) -> Hang | None:
    """The hang that stacks show: some ranks stand in a collective, one does not."""
    inside = {rank for event, rank in dumps if rank and _IN_COLLECTIVE.search(event.line)}
    outside = sorted({rank for _, rank in dumps if rank} - inside, key=_number)
    if not inside:
        return None
    since = dumps[0][0].time
    evidence = tuple(Evidence(e.source, e.line[:400], "", "", {"rank": r}) for e, r in dumps[:3])
    if outside and len(outside) <= len(inside):
        words = f"rank {outside[0]} stands outside the collective that the others wait in"
        return Hang(since, words, 0.85, outside[0], True, evidence)
    return Hang(since, "the ranks wait in a collective", 0.7, "", True, evidence)
