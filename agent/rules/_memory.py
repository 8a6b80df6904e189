"""What is known of the memory of one process on its GPU: which parts of it grow, and its phases."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gpudiag.agent.analysis.stats import Floats
from gpudiag.agent.rules._growth import LEAST, Growth, enough, growth
from gpudiag.agent.rules.contract import Subject, subject
from gpudiag.agent.window import Series, Window

USED = "gpudiag_gpu_memory_used_bytes"
TOTAL = "gpudiag_gpu_memory_total_bytes"
PROCESS = "gpudiag_gpu_process_memory_bytes"
ALLOCATED = "gpudiag_torch_allocated_bytes"
RESERVED = "gpudiag_torch_reserved_bytes"
OUTSIDE = "gpudiag_torch_non_torch_bytes"
PINNED = "gpudiag_torch_pinned_bytes"
SPLIT = "gpudiag_torch_inactive_split_bytes"
RETRIES = "gpudiag_torch_alloc_retries_total"
BLOCKS = "gpudiag_torch_live_blocks"
SITE = "gpudiag_leak_site_bytes"
LOADER = ("gpudiag_process_pss_bytes", "gpudiag_process_resident_bytes")
PHASE = "gpudiag_train_phase_seconds"
GC = "gpudiag_train_gc_pause_seconds"
INFO = "gpudiag_train_info"

TRENDS = frozenset(
    {USED, PROCESS, ALLOCATED, RESERVED, OUTSIDE, PINNED, SPLIT, BLOCKS, SITE, *LOADER}
)
READS = frozenset({RETRIES, PHASE, GC, ALLOCATED})

DAY = 86400.0
HOUR = 3600.0
RAW = 7200.0
TRIFLE = 0.02
# Pages that workers share make their shares wobble by some percent as siblings come and go.
HOST_TRIFLE = 0.05
# Groups are made a few times in a job's life, so that growth by steps need not go on to the end.
LATE_STEPS = 0.2


Key = tuple[str, str]
"""A process by its job and rank, "" for what it has none of."""


@dataclass(frozen=True, slots=True)
class Memory:
    """One process: who it is, what of it was seen long enough, and what of that grows."""

    who: Subject
    labels: dict[str, str]
    uuid: str
    series: dict[str, Series]
    grows: dict[str, Growth] = field(default_factory=dict)

    @property
    def seen(self) -> frozenset[str]:
        """The parts seen for so long that no growth means something."""
        return frozenset(metric for metric, one in self.series.items() if enough(one))

    @property
    def judged(self) -> bool:
        """Whether any part was seen for so long."""
        return any(map(enough, self.series.values()))

    def rate(self, metric: str) -> float:
        """Growth in bytes a second; 0 where there is none."""
        return self.grows[metric].rate if metric in self.grows else 0.0

    def moved(self, metric: str, since: float) -> float:
        """By how many bytes a part is higher now than at `since`; 0 where it was not seen."""
        one = self.series.get(metric)
        if one is None or not len(one.times):
            return 0.0
        first = min(int(np.searchsorted(one.times, since)), len(one.times) - 1)
        return float(one.values[-3:].min() - one.values[first : first + 3].min())

    @property
    def key(self) -> Key:
        """Its job and rank."""
        return _key(self.labels)


def processes(window: Window) -> Iterator[Memory]:
    """Every training or serving process that tells of its memory."""
    parts = {m: _by_process(window, m) for m in (ALLOCATED, RESERVED, OUTSIDE, PINNED)}
    gpus = _gpus(window, {k for part in parts.values() for k in part})
    used = {s.labels.get("uuid", ""): s for s in window.minutes(USED, DAY, "min")}
    for key in dict.fromkeys(k for part in parts.values() for k in part):
        uuid = gpus.get(key, "")
        series = {metric: part[key] for metric, part in parts.items() if key in part}
        if uuid in used:
            series[USED] = used[uuid]
        yield _memory(key, uuid, series)


def _gpus(window: Window, keys: set[Key]) -> dict[Key, str]:
    """The GPU of each process; without its own word, that of the index that is its rank."""
    told = window.seen(INFO)
    if told:
        return {_key(labels): labels.get("uuid", "") for labels in told}
    indices = {labels.get("gpu", ""): labels.get("uuid", "") for labels in window.seen(USED)}
    by_rank = {rank: (job, rank) for job, rank in keys}
    if len(by_rank) == len(keys) and by_rank.keys() == indices.keys():
        return {by_rank[index]: uuid for index, uuid in indices.items()}
    return {}


def _memory(key: Key, uuid: str, series: dict[str, Series]) -> Memory:
    grows = {
        metric: found
        for metric, one in series.items()
        if metric != OUTSIDE and (found := growth(one))
    }
    if USED in grows and RESERVED in series and OUTSIDE not in series:
        series[OUTSIDE] = _difference(series[USED], series[RESERVED])
    outside = growth(series[OUTSIDE], late=LATE_STEPS) if OUTSIDE in series else None
    if outside and outside.grown >= LEAST * _held(series):
        grows[OUTSIDE] = outside
    labels = {name: value for name, value in zip(("job", "rank"), key, strict=True) if value}
    return Memory(_subject(uuid, *key), labels, uuid, series, grows)


def _held(series: dict[str, Series]) -> float:
    """What torch holds: beside it a few MiB outside torch are the noise of two readings."""
    reserved = series.get(RESERVED)
    return float(reserved.values[-1]) if reserved is not None and len(reserved.values) else 0.0


@lru_cache(maxsize=1024)
def _subject(uuid: str, job: str, rank: str) -> Subject:
    named = {"uuid": uuid, "job": job, "rank": rank}
    return subject(**{name: value for name, value in named.items() if value})


def _difference(one: Series, other: Series) -> Series:
    times, mine, others = np.intersect1d(one.times, other.times, return_indices=True)
    return Series(one.labels, times, one.values[mine] - other.values[others])


def _by_process(window: Window, metric: str) -> dict[Key, Series]:
    return {_key(s.labels): s for s in window.minutes(metric, DAY, "min")}


def _key(labels: dict[str, str]) -> Key:
    return labels.get("job", ""), labels.get("rank", "")


class Worker(NamedTuple):
    """A data-loading process whose host memory, `metric`, grows."""

    labels: dict[str, str]
    metric: str
    grown: Growth


def loaders(window: Window, told: Sequence[Key]) -> dict[Key, Worker]:
    """The loader worker whose memory grows fastest, for each job and rank.

    One that names no job belongs to the process among `told` that has its rank, if one has.
    """
    found: dict[Key, Worker] = {}
    for metric in LOADER:
        for series in window.minutes(metric, DAY, "min", role="loader"):
            grown, key = _host_growth(series), _key(series.labels)
            owners = [other for other in told if other[1] == key[1]]
            key = owners[0] if not key[0] and len(owners) == 1 else key
            if grown and (key not in found or grown.rate > found[key].grown.rate):
                found[key] = Worker(series.labels, metric, grown)
        if found:
            break
    return found


def _host_growth(series: Series) -> Growth | None:
    """Growth beyond the trifle that shared pages come and go by, as the host's memory has them."""
    grown = growth(series)
    return grown if grown and grown.grown >= HOST_TRIFLE * grown.level else None


def growing_pids(window: Window, uuid: str) -> dict[str, Growth]:
    """Processes on this GPU, by `name (pid N)`, whose device memory grows."""
    found = {}
    for series in window.minutes(PROCESS, DAY, "min", uuid=uuid):
        grown = growth(series)
        if grown:
            name, pid = series.labels.get("process", ""), series.labels.get("pid", "?")
            found[f"{name} (pid {pid})".strip()] = grown
    return found


def share_in_phases(window: Window, labels: dict[str, str], phases: Sequence[str]) -> float:
    """The part of all growth of allocated memory that fell into these phases of the last 2 h.

    0 where no such phase was told of, or where they fill more than half of the time: growth in
    them then means nothing.
    """
    allocated = next(iter(window.series(ALLOCATED, RAW, **labels)), None)
    if allocated is None or len(allocated.times) < 3:
        return 0.0
    inside = np.zeros(len(allocated.times) - 1, dtype=bool)
    for series in window.series(PHASE, RAW, **labels):
        if any(word in series.labels.get("phase", "") for word in phases):
            active = series.times[series.values > 0.0]
            inside |= _steps_at(allocated.times, active)
    rises = np.clip(np.diff(allocated.values), 0.0, None)
    if not inside.any() or inside.mean() > 0.5 or not rises.sum():
        return 0.0
    return float(rises[inside].sum() / rises.sum())


def _steps_at(times: Floats, moments: Floats) -> npt.NDArray[np.bool_]:
    """Which of the steps between `times` touch one of `moments`."""
    near = np.zeros(len(times) + 1, dtype=bool)
    after = np.searchsorted(times, moments)
    near[after] = near[np.minimum(after + 1, len(times))] = True
    return near[1:-1]


class Collected(NamedTuple):
    """What garbage collection did to allocated memory in the last 2 h.

    `runs` is how often it ran; `rose` and `freed` are bytes, `freed_in` how many runs freed some,
    and `fell` what was freed at any time.
    """

    runs: int = 0
    rose: float = 0.0
    freed: float = 0.0
    freed_in: int = 0
    fell: float = 0.0
    seconds: float = 0.0
    since: float = 0.0
    level: float = 0.0


def collected(window: Window, labels: dict[str, str]) -> Collected:
    """How allocated memory moved, and how much of its fall came with a run of gc."""
    allocated = next(iter(window.series(ALLOCATED, RAW, **labels)), None)
    pauses = next(iter(window.series(GC, RAW, **labels)), None)
    if allocated is None or pauses is None or len(allocated.times) < 3:
        return Collected()
    ran = pauses.times[pauses.values > 0.0]
    near = _steps_at(allocated.times, ran)
    if near.mean() > 0.5:
        # It runs all the time, as that of the youngest objects does: everything is near it.
        return Collected()
    steps = np.diff(allocated.values)
    falls = np.clip(-steps, 0.0, None)
    return Collected(
        runs=len(ran),
        rose=float(np.clip(steps, 0.0, None).sum()),
        freed=float(falls[near].sum()),
        freed_in=int((falls[near] > 0.0).sum()),
        fell=float(falls.sum()),
        seconds=float(allocated.times[-1] - allocated.times[0]),
        since=float(allocated.times[0]),
        level=float(allocated.values[-1]),
    )


def swings(window: Window, labels: dict[str, str]) -> bool:
    """Whether allocated memory moved by more than a trifle within the last hour."""
    hour = next(iter(window.minutes(ALLOCATED, HOUR, "min", **labels)), None)
    return (
        hour is not None
        and len(hour.values) > 2
        and np.ptp(hour.values) > (TRIFLE * hour.values.max())
    )
