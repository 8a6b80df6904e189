"""One training process as the agent knows it: who it is, joined once, and what it has said."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from gpudiag.agent.channel.outside import Outside
from gpudiag.agent.channel.packets import MAX_NAME, Hello, Metrics, bounded, readings
from gpudiag.agent.channel.place import Place
from gpudiag.probes import Labels, Sample, labels

INFO = "gpudiag_train_info"
CONFIG = "gpudiag_train_config_info"
STEPS = "gpudiag_train_steps_total"
STEP_SECONDS = "gpudiag_train_step_seconds"
RESERVED = "gpudiag_torch_reserved_bytes"
OUTSIDE = "gpudiag_torch_non_torch_bytes"
CONFIGURED = ("precision", "recompute", "optimizer", "sharding")

MAX_SERIES = 2000
"""Series that one process may open; more is a label that grows without end."""

MAX_LAST = 50
"""Readings kept as evidence of a process's end."""

SKEW_SECONDS = 60.0
"""A packet further from the agent's time than this has a wrong clock: it gets the agent's."""


class Rank:
    """The series of one process and its identity: `pid` as the agent sees it, else as it says;
    `uid` whom it runs as, by the kernel.
    """

    def __init__(
        self, hello: Hello, pid: int, job: str, place: Place, uid: int | None = None
    ) -> None:
        self.uid = uid
        self.pid = pid or hello.pid
        # Its own number means another process to this one's namespace: nothing is joined by it.
        self.seen = bool(pid)
        self.place = place
        self.job = job[:MAX_NAME]
        self.hello = hello
        self.step: float | None = None
        self.step_seconds: float | None = None
        self.dropped = 0
        """Readings that opened more series than one process may have."""
        self._heard = 0.0
        self._outside = Outside()
        self._newest: dict[tuple[str, Labels], float] = {}
        self._series: dict[tuple[str, Labels], Labels] = {}
        self._told: set[tuple[str, Labels]] = set()

    @property
    def rank(self) -> int:
        """Its global rank."""
        return self.hello.rank

    @property
    def who(self) -> Labels:
        """`job` and `rank`, on every series of this process."""
        return labels(job=self.job, rank=str(self.rank))

    def about(self, now: float, uuid: str) -> list[Sample]:
        """The two info series; the old ones end where something in them has changed."""
        hello = self.hello
        facts = {
            "local_rank": hello.local_rank,
            "world_size": hello.world_size,
            "pid": self.pid if self.seen else None,
            "uuid": hello.uuid or (uuid if self.seen else None),
            "framework": hello.framework,
            "layout": hello.layout,
        }
        info = {name: value for name, value in facts.items() if value not in (None, "")}
        config = {name: hello.config[name] for name in CONFIGURED if hello.config.get(name)}
        wanted = {(INFO, self._labels((*bounded(info), *self.place.labels)))}
        if config:
            wanted.add((CONFIG, self._labels(bounded(config))))
        gone = {key for key in self._told if key[0] in (INFO, CONFIG)} - wanted
        self._told = self._told - gone | wanted
        return [*_stale(gone, now), *(Sample(metric, of, now, 1.0) for metric, of in wanted)]

    def take(
        self, packet: Metrics, now: float, used: tuple[float, float] | None = None
    ) -> list[Sample]:
        """The packet's readings as samples of this rank.

        With `used`, the driver's newest (time, bytes) of this process on its GPU, also what it
        holds there outside torch.
        """
        time = packet.time if abs(packet.time - now) <= SKEW_SECONDS else now
        self._heard = time
        samples = list(self._samples(packet, time))
        reserved = next((s.value for s in samples if s.metric == RESERVED), None)
        outside = None if reserved is None else self._outside.take(time, reserved, used)
        if outside is not None:
            samples.append(Sample(OUTSIDE, self.who, *outside))
            self._told.add((OUTSIDE, self.who))
        return samples

    def stale(self, now: float, but: Iterable[tuple[str, Labels]] = ()) -> list[Sample]:
        """Markers that end every series of this process, `but` those that another one goes on."""
        ended, self._told = self._told - set(but), set()
        return _stale(ended, now)

    def told(self) -> set[tuple[str, Labels]]:
        """Every series that this process has opened."""
        return self._told

    def last_words(self) -> dict[str, str]:
        """What it last said, for the record of its end."""
        found = {}
        if self.step is not None:
            found["last_step"] = f"{self.step:.0f}"
        if self._newest:
            told = [[metric, dict(of), value] for (metric, of), value in self._newest.items()]
            found["last_time"] = f"{self._heard:.3f}"
            found["last_record"] = json.dumps(told[:MAX_LAST])
        return found

    def _samples(self, packet: Metrics, time: float) -> Iterator[Sample]:
        for metric, pairs, value in readings(packet):
            of = self._series.get((metric, pairs))
            if of is None:
                if len(self._series) >= MAX_SERIES:
                    self.dropped += 1
                    continue
                of = self._series[metric, pairs] = self._labels(pairs)
            if metric == STEPS:
                self.step = value
            elif metric == STEP_SECONDS:
                self.step_seconds = value
            self._told.add((metric, of))
            if not metric.endswith("_bucket"):
                self._newest[metric, pairs] = value
            yield Sample(metric, of, time, value)

    def _labels(self, pairs: Labels) -> Labels:
        return tuple(sorted({**dict(pairs), **dict(self.who)}.items()))


def _stale(series: Iterable[tuple[str, Labels]], now: float) -> list[Sample]:
    return [Sample(metric, of, now, float("nan")) for metric, of in sorted(series)]
