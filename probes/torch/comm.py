"""What a step waits for other ranks, put together from all that can measure a part of it."""

from __future__ import annotations

from gpudiag.probes.torch.cuda_times import Gpu
from gpudiag.probes.torch.ddp import DdpWait
from gpudiag.probes.torch.features import Features
from gpudiag.probes.torch.meter import Value
from gpudiag.probes.torch.waits import Spent, Waits

# Share of the collectives that must be seen to be waited for; a few are on their way.
SEEN = 0.9
# Share of the waiting that may be without a group, else none is told by group.
NAMELESS = 0.1
ALONE = "not needed: one rank"
NO_RECORDER = "absent: no flight recorder has counted a collective"
ELSEWHERE = "absent: most collectives are waited for outside Python"
UNSEEN = "absent: no step on the GPU could be looked at"
NOT_SAMPLED = "absent: DDP has logged no backward"


class CommWait:
    """DDP's waiting as its own logging tells it, and the waits that go through Python.

    Without DDP these must be those of nearly all collectives that the flight recorder counts:
    what C++ waits for by itself nobody here sees, and a part would pass for the whole. `source`
    says what the measure rests on, or why there is none.
    """

    def __init__(self, features: Features, ddp: DdpWait, waits: Waits) -> None:
        self.source = ALONE
        self._recorders = (features.flight_recorder, features.nccl_recorder)
        self._ddp = ddp
        self._waits = waits
        self._enqueued = 0
        self._seen = 0
        self._covered: bool | None = None

    def take(self, steps: int, alone: bool, gpu: Gpu | None) -> list[Value]:
        """Seconds of waiting a step, in all and by group; nothing where it is not known."""
        own: Spent | None = self._waits.take(steps)
        if gpu is not None:
            own = gpu.comm
        spent, self.source = self._ddps(own) if self._ddp else self._own(own, alone, gpu)
        if spent is None or steps <= 0:
            return []
        return [("gpudiag_train_comm_wait_seconds", {}, sum(spent.values())), *self._groups(spent)]

    def _ddps(self, own: Spent | None) -> tuple[Spent | None, str]:
        spent = self._ddp.take(self._waits.label)
        if spent is None:
            return None, NOT_SAMPLED
        for group, waited in (own or {}).items():
            spent[group] = spent.get(group, 0.0) + waited
        return spent, "ddp_logging"

    def _own(self, own: Spent | None, alone: bool, gpu: Gpu | None) -> tuple[Spent | None, str]:
        if alone:
            return None, ALONE
        self._judge()
        if not self._covered:
            return None, NO_RECORDER if self._covered is None else ELSEWHERE
        return own, ("work_wait" if gpu is None else UNSEEN if own is None else "cuda_events")

    def _judge(self) -> None:
        """Compare the collectives since the last time with those waited for in Python."""
        enqueued, seen = self._count(), self._waits.seen
        more = enqueued - self._enqueued
        if more > 0:
            self._covered = seen - self._seen >= SEEN * more
        if more:
            # Fewer than before: a group was destroyed, and its count with it.
            self._enqueued, self._seen = enqueued, seen

    def _count(self) -> int:
        status = [
            group
            for recorder in self._recorders
            for group in ((recorder(False) or {}).get("pg_status") or {}).values()
        ]
        return sum(max(int(group.get("last_enqueued_collective", 0)), 0) for group in status)

    def _groups(self, spent: Spent) -> list[Value]:
        if spent.get("", 0.0) > NAMELESS * sum(spent.values()):
            return []
        return [
            ("gpudiag_train_group_wait_seconds", {"group": group, "scope": scope}, waited)
            for group, waited in sorted(spent.items())
            if (scope := self._waits.scopes.get(group)) is not None
        ]
