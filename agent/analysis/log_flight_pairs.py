"""Sends and receives of flight-recorder dumps: who waits for a rank that does not answer.

They are numbered by each rank for itself, so they are matched by what is outstanding: a receive
waits for as long as its peer has no send to it outstanding, and the other way round. In a batch
(`batch_isend_irecv`) only the entry `coalesced` that closes it has a state.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from gpudiag.agent.analysis.log_flight_dump import Dump, Point

Kind = Literal["missing", "order", "stuck", "alone"]


@dataclass(frozen=True, slots=True)
class Waiting:
    """Rank `rank` waits in `point` of `group`, whose other end is rank `peer`."""

    group: str
    rank: int
    peer: int
    point: Point

    @property
    def words(self) -> str:
        """`receive from rank 2`."""
        return f"{'send to' if self.point.sends else 'receive from'} rank {self.peer}"

    @property
    def lacking(self) -> str:
        """What the peer has not entered: `send to rank 3`."""
        return f"{'receive from' if self.point.sends else 'send to'} rank {self.rank}"


@dataclass(frozen=True, slots=True)
class Pair:
    """One verdict, as of collectives: `ranks` are to blame, `first` is what is waited for."""

    kind: Kind
    first: Waiting
    ranks: tuple[int, ...]
    waiting: tuple[int, ...]
    unseen: tuple[int, ...] = ()
    detail: str = ""


def pairs(dumps: Sequence[Dump], busy: frozenset[int]) -> list[Pair]:
    """Where the waiting for each other begins; `busy` are ranks that wait in a collective.

    Of a chain of stages that wait each for the next only the one is told that waits for nobody.
    """
    waits = [one for dump in dumps for one in _outstanding(dump)]
    seen = {dump.rank for dump in dumps}
    open_ = [one for one in waits if not _answered(one, waits)]
    idle = {one.rank for one in open_} | busy
    roots = [one for one in open_ if one.peer not in idle]
    found = list(_by_peer([one for one in roots if one.peer in seen], "missing"))
    found += _by_peer([one for one in roots if one.peer not in seen], "alone")
    if open_ and not found and not busy:
        found.append(_cycle(open_))
    if waits and not open_:
        ranks = tuple(sorted({one.rank for one in waits}))
        found.append(Pair("stuck", waits[0], (), ranks))
    return found


def _outstanding(dump: Dump) -> Iterator[Waiting]:
    for log in dump.groups.values():
        members: Mapping[int, int] = dict(enumerate(log.ranks))
        for point in log.points:
            peer = members.get(point.peer, point.peer)
            yield Waiting(log.title or log.name, dump.rank, peer, point)


def _answered(one: Waiting, waits: Sequence[Waiting]) -> bool:
    """Whether the peer is at the other end of it."""
    return any(
        (other.group, other.rank, other.peer) == (one.group, one.peer, one.rank)
        and other.point.sends != one.point.sends
        for other in waits
    )


def _by_peer(roots: Sequence[Waiting], kind: Kind) -> Iterator[Pair]:
    for peer in sorted({one.peer for one in roots}):
        of = sorted((one for one in roots if one.peer == peer), key=lambda one: one.point.created)
        waiting = tuple(sorted({one.rank for one in of}))
        blamed, unseen = ((peer,), ()) if kind == "missing" else ((), (peer,))
        detail = "; ".join(f"rank {one.rank} waits to {one.words}" for one in of[:4])
        yield Pair(kind, of[0], blamed, waiting, unseen, detail)


def _cycle(open_: Sequence[Waiting]) -> Pair:
    """Each waits for one who waits: no order of theirs can go on."""
    first = min(open_, key=lambda one: one.point.created)
    ranks = tuple(sorted({one.rank for one in open_}))
    detail = "; ".join(f"rank {one.rank} waits to {one.words}" for one in open_[:4])
    return Pair("order", first, ranks, ranks, detail=detail)
