"""Who comes last to collectives: arrival times of the ranks of one node, compared by number.

One node has one clock, so that times can be compared without any synchronisation.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from gpudiag.agent.channel.lags import StepLags
from gpudiag.agent.channel.packets import Arrivals
from gpudiag.probes import Sample, labels

LAG = "gpudiag_train_arrival_lag_seconds"
LAST = "gpudiag_train_last_arrivals_ratio"

SILENT_SECONDS = 30.0
"""A rank that has sent no arrivals for so long is not waited for any more."""

MAX_OPEN = 1024
MAX_GROUPS = 64
MAX_COMPARED = 4096


@dataclass(slots=True)
class _Group:
    """The collectives of one group that not every rank has told of yet, by their number."""

    heard: dict[int, float] = field(default_factory=dict)
    done: dict[int, int] = field(default_factory=dict)
    open: defaultdict[int, dict[int, tuple[int, int | None]]] = field(
        default_factory=lambda: defaultdict(dict)
    )
    steps: StepLags = field(default_factory=StepLags)


@dataclass(slots=True)
class _Sum:
    """How one rank fared in the steps since the last report."""

    lag: float = 0.0
    last: int = 0
    count: int = 0


class ArrivalComparison:
    """Takes the arrivals of every rank, gives each rank's lag a step and share of last places."""

    def __init__(self) -> None:
        self._groups: dict[tuple[str, str], _Group] = {}
        self._sums: defaultdict[tuple[str, int], _Sum] = defaultdict(_Sum)

    def add(
        self,
        job: str,
        rank: int,
        packet: Arrivals,
        now: float,
        step_seconds: float | None = None,
    ) -> None:
        """Take one rank's newest collectives; packets may overlap and come in any order.

        By the usual time of a step they are put together to steps.
        """
        group = self._groups.get((job, packet.group))
        if group is None:
            if len(self._groups) >= MAX_GROUPS:
                return
            group = self._groups[job, packet.group] = _Group()
        group.heard[rank] = now
        done = group.done.get(rank, -1)
        newest = max((number for number, _, _ in packet.entries), default=-1)
        if newest < done - MAX_OPEN:
            # Numbers that begin again: the group was made anew.
            self._groups[job, packet.group] = group = _Group(heard=group.heard)
            done = -1
        for number, created, duration in packet.entries:
            if number > done:
                group.open[number][rank] = (created, duration)
        self._close(job, group, now, step_seconds)

    def forget(self, job: str, rank: int) -> None:
        """The process has ended: nobody waits for its arrivals, and its numbers begin anew."""
        for (of, _), group in self._groups.items():
            if of == job and group.heard.pop(rank, None) is not None:
                group.done.pop(rank, None)
                group.open.clear()
        self._groups = {key: group for key, group in self._groups.items() if group.heard}
        self._sums.pop((job, rank), None)

    def report(self, now: float) -> list[Sample]:
        """What was compared since the last report; a rank that was not compared is absent."""
        sums, self._sums = self._sums, defaultdict(_Sum)
        return list(_samples(sums, now))

    def _close(self, job: str, group: _Group, now: float, step_seconds: float | None) -> None:
        ranks = {rank for rank, at in group.heard.items() if now - at <= SILENT_SECONDS}
        if len(ranks) < 2:
            group.open.clear()
            return
        complete = sorted(n for n, entries in group.open.items() if ranks <= entries.keys())
        for number in complete:
            late = group.steps.add(number, group.open.pop(number), step_seconds)
            if late is not None:
                self._count(job, late)
        if complete:
            group.done = dict.fromkeys(ranks, complete[-1])
        # What an earlier packet has lost will not come any more.
        for number in sorted(group.open):
            if len(group.open) > MAX_OPEN or (complete and number < complete[-1]):
                del group.open[number]

    def _count(self, job: str, late: dict[int, float]) -> None:
        last = max(late, key=lambda rank: late[rank])
        for rank, lag in late.items():
            told = self._sums[job, rank]
            if told.count < MAX_COMPARED:
                told.lag += lag
                told.count += 1
                told.last += rank == last and lag > 0.0


def _samples(sums: dict[tuple[str, int], _Sum], now: float) -> Iterator[Sample]:
    for (job, rank), told in sums.items():
        who = labels(job=job, rank=str(rank))
        yield Sample(LAG, who, now, told.lag / told.count)
        yield Sample(LAST, who, now, told.last / told.count)
