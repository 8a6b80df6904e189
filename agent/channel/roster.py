"""The training processes of this node: what their packets mean, as samples and events."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from gpudiag.agent.channel.arrivals import ArrivalComparison
from gpudiag.agent.channel.endings import Endings, goodbye
from gpudiag.agent.channel.listening import Peer
from gpudiag.agent.channel.packets import (
    Arrivals,
    Bye,
    Exit,
    Happened,
    Hello,
    Metrics,
    Packet,
    line_of,
)
from gpudiag.agent.channel.place import ended, place
from gpudiag.agent.channel.rank import SKEW_SECONDS, Rank
from gpudiag.agent.engine import JOB_ENDED
from gpudiag.agent.scheduler import Batch
from gpudiag.probes import Event, Sample, labels

log = logging.getLogger(__name__)

REPORT_SECONDS = 5.0
LOOK_SECONDS = 1.0
UNNAMED = "unnamed"

_OUTCOMES = ("taken", "malformed", "ignored", "refused", "dropped")


class Roster:
    """Who is connected, and what is to be handed on. The channel's thread alone drives it."""

    def __init__(
        self,
        gpu_of: Callable[[int], str] = lambda _: "",
        endings: Endings | None = None,
        proc: Path = Path("/proc"),
        memory_of: Callable[[int, str], tuple[float, float] | None] = lambda _pid, _uuid: None,
    ) -> None:
        """`gpu_of` gives the GPU that the driver sees a process on, "" where it sees none.

        `memory_of` gives the time and the bytes of its newest word on a process and a GPU.
        """
        self.counts: Counter[str] = Counter(dict.fromkeys(_OUTCOMES, 0))
        self.traffic: Counter[str] = Counter(up=0, down=0)
        self._gpu_of, self._memory_of = gpu_of, memory_of
        self._endings = endings or Endings(proc)
        self._proc = proc
        self._arrivals = ArrivalComparison()
        self._ranks: list[Rank] = []
        self._unclean: set[str] = set()
        self._samples: list[Sample] = []
        self._events: list[Event] = []
        self._report_due = self._look_due = 0.0

    def ranks(self, job: str = "") -> list[Rank]:
        """Those connected, of one job or of all; any thread may ask."""
        return [rank for rank in self._ranks if job in ("", rank.job)]

    def hello(self, rank: Rank | None, packet: Hello, peer: Peer, now: float) -> Rank:
        """A process says who it is, for the first time or anew; gives what it is known as now."""
        pid = peer.pid or packet.pid
        present = rank in self._ranks
        if rank is not None and present and self._same(rank, packet):
            rank.hello = packet
        else:
            if rank is not None and present:
                self._samples += rank.stale(now)
                self._ranks.remove(rank)
            self._endings.back(pid)
            job = self._job(packet, peer, now)
            rank = Rank(packet, peer.pid, job, place(peer.pid, self._proc), peer.uid)
            self._ranks.append(rank)
            log.info("rank %d of %s is here (pid %d)", rank.rank, rank.job, rank.pid)
        self._samples += rank.about(now, self._gpu_of(rank.pid))
        return rank

    def take(self, rank: Rank, packet: Packet, now: float) -> None:
        """Anything else that a known process says; after its end it has no more to say."""
        if rank not in self._ranks:
            self.counts["ignored"] += 1
        elif isinstance(packet, Metrics):
            before = rank.dropped
            used = self._memory_of(rank.pid, rank.hello.uuid or "") if rank.seen else None
            self._samples += rank.take(packet, now, used)
            self.counts["dropped"] += rank.dropped - before
        elif isinstance(packet, Happened):
            self._events.append(_event(rank, packet, now))
        elif isinstance(packet, Arrivals):
            self._arrivals.add(rank.job, rank.rank, packet, now, rank.step_seconds)
        elif isinstance(packet, Bye):
            self._events.append(goodbye(rank, packet, now))
            self._leave(rank, now, clean=packet.reason == "clean")

    def parent_told(self, packet: Exit, now: float) -> None:
        """A parent says how its child ended; the child's own connection may still seem open."""
        for rank in self.ranks():
            if packet.pid in (rank.pid, rank.hello.pid):
                self.lost(rank, now)
        self._events += self._endings.told(packet, now)

    def lost(self, rank: Rank, now: float) -> None:
        """Its connection ended without a goodbye."""
        if rank in self._ranks:
            self._endings.lost(rank, now)
            self._leave(rank, now, clean=False)

    def tick(self, now: float) -> None:
        """What time brings: ends that can be told, what each is called, who came last."""
        if not 0.0 <= self._look_due - now <= LOOK_SECONDS:
            self._look_due = now + LOOK_SECONDS
            # A loader's worker that outlives its trainer may hold the connection open.
            for rank in self.ranks():
                started = rank.place.started
                if started is not None and ended(rank.pid, started, self._proc):
                    self.lost(rank, now)
        if not 0.0 <= self._report_due - now <= REPORT_SECONDS:
            self._report_due = now + REPORT_SECONDS
            for rank in self._ranks:
                self._samples += rank.about(now, self._gpu_of(rank.pid))
            self._samples += self._arrivals.report(now)
            self._samples += self._counted(now)
        self._events += self._endings.settle(now)

    def drain(self) -> Batch:
        """What is to be handed on since the last call."""
        batch = self._samples, self._events
        self._samples, self._events = [], []
        return batch

    def _leave(self, rank: Rank, now: float, *, clean: bool) -> None:
        self._ranks.remove(rank)
        taken_over = {key for other in self._ranks for key in other.told()}
        self._samples += rank.stale(now, but=taken_over)
        self._arrivals.forget(rank.job, rank.rank)
        if not clean:
            self._unclean.add(rank.job)
        if not self.ranks(rank.job):
            if rank.job not in self._unclean:
                line = f"job {rank.job} has ended: every rank on this node took its leave"
                self._events.append(Event(now, "torch", line, JOB_ENDED, {"job": rank.job}))
            self._unclean.discard(rank.job)

    def _same(self, rank: Rank, packet: Hello) -> bool:
        named = rank.hello.job == packet.job
        return named and rank.hello.rank == packet.rank

    def _job(self, packet: Hello, peer: Peer, now: float) -> str:
        """The job's name; one that another launch on this node bears gets its launcher's pid."""
        name = packet.job or UNNAMED
        for rank in self.ranks(name):
            if rank.rank != packet.rank:
                continue
            started = rank.place.started
            if rank.pid == (peer.pid or packet.pid):
                self._ranks.remove(rank)
            elif started is not None and ended(rank.pid, started, self._proc):
                self.lost(rank, now)
            else:
                own = place(peer.pid, self._proc).parent or peer.pid
                log.warning("two jobs are called %s: one is shown as %s~%d", name, name, own)
                return f"{name}~{own}"
        return name

    def _counted(self, now: float) -> list[Sample]:
        packets, size = "gpudiag_channel_packets_total", "gpudiag_channel_bytes_total"
        return [
            *(Sample(packets, labels(outcome=o), now, float(n)) for o, n in self.counts.items()),
            *(Sample(size, labels(direction=d), now, float(n)) for d, n in self.traffic.items()),
        ]


def _event(rank: Rank, packet: Happened, now: float) -> Event:
    fields = {str(name): str(value)[:2000] for name, value in list(packet.fields.items())[:50]}
    time = packet.time if abs(packet.time - now) <= SKEW_SECONDS else now
    who = {**dict(rank.who), "pid": str(rank.pid)}
    return Event(time, "torch", line_of(packet.line), packet.type[:64], {**fields, **who})
