"""A job's steps and their parts over time, and how they are now beside how they were."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from gpudiag.agent.analysis.stats import MAD_TO_SIGMA
from gpudiag.agent.rules._jobs import Job
from gpudiag.agent.rules._teams import CHECKPOINT, COMM, COMPUTE, DATA, GC, STEP, STEPS
from gpudiag.agent.window import Series, Window

Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

PARTS = (STEP, COMPUTE, DATA, COMM)
READS = frozenset({STEPS, STEP, COMPUTE, DATA, COMM, CHECKPOINT, GC})
TRENDS = frozenset(PARTS)

RAW = 900.0
HISTORY = 6 * 3600.0
BIN = 5.0
RECENT = 90.0
WARM = 60.0
FEW = 4


@dataclass(slots=True)
class Picture:
    """Bins of one job, oldest first: minutes at first, then as short as its readings allow.

    `times` are their ends; `of[metric]` is (bins, ranks) in seconds, NaN where nothing was read;
    `recent` and `good` pick the newest bins and the older ones in which steps took no longer than
    they usually do at best. `base` is that usual step, `step` the one of now, seconds.
    """

    job: Job
    ranks: tuple[str, ...]
    times: Floats
    of: dict[str, Floats]
    width: float
    recent: Mask = field(default_factory=lambda: np.zeros(0, dtype=np.bool_))
    good: Mask = field(default_factory=lambda: np.zeros(0, dtype=np.bool_))
    base: float = 0.0
    step: float = 0.0
    noise: float = 0.0

    @property
    def line(self) -> Floats:
        """The job's step time per bin: the median of its ranks."""
        return np.asarray(np.nanmedian(self.of[STEP], axis=1))

    def known(self, metric: str) -> bool:
        """Whether every rank reports it, lately."""
        return metric in self.of and not np.isnan(self.now(metric)).any()

    def now(self, metric: str) -> Floats:
        """Each rank's median over the newest bins."""
        return medians(self.of[metric][self.recent])

    def before(self, metric: str) -> Floats:
        """Each rank's median while steps were as they should be; NaN where that is not known."""
        return medians(self.of[metric][self.good])

    def rise(self, metric: str) -> float:
        """By how much the part grew, s: the median of the ranks; 0.0 where it is not known."""
        if metric not in self.of or not self.good.any():
            return 0.0
        grown = self.now(metric) - self.before(metric)
        return float(np.nan_to_num(middle(grown)))

    @property
    def slower(self) -> float:
        """How much longer a step takes than it did, s."""
        return self.step - self.base

    def since(self) -> float:
        """When the steps of now became as slow as they are."""
        halfway = self.line < (self.base + self.step) / 2.0
        if self.base <= 0.0 or not halfway.any():
            return float(self.times[0] - self.width)
        return float(self.times[np.flatnonzero(halfway)[-1]])


def medians(rows: Floats) -> Floats:
    """Of each column what is known of it, NaN where nothing is."""
    told = rows[~np.isnan(rows).all(axis=1)] if rows.size else rows
    if not len(told):
        return np.full(rows.shape[1], np.nan)
    found = np.full(rows.shape[1], np.nan)
    some = ~np.isnan(told).all(axis=0)
    found[some] = np.nanmedian(told[:, some], axis=0)
    return found


def middle(values: Floats) -> float:
    """The median of what is known; NaN where nothing is."""
    told = values[~np.isnan(values)]
    return float(np.median(told)) if len(told) else float("nan")


def picture(window: Window, job: Job) -> Picture | None:
    """The steps of a job, None where too few were read to speak of any."""
    raw = {m: _by_rank(window.series(m, RAW, job=job.name)) for m in READS}
    ranks = tuple(sorted(raw[STEP], key=lambda r: int(r) if r.isdigit() else 0))
    if not ranks:
        return None
    newest = [raw[STEP][rank] for rank in ranks]
    spacing = max((_spacing(s) for s in newest), default=0.0)
    end = max(float(s.times[-1]) for s in newest)
    first = min(float(s.times[0]) for s in newest)
    width = max(BIN, 1.2 * spacing)
    count = int(min(RAW, end - first) // width) + 1
    edges = end - width * np.arange(count - 1, -1, -1.0)
    older = _older(window, job, ranks, edges[0] - width)
    times = np.concatenate([older[0], edges])
    of = {}
    for metric, by_rank in raw.items():
        if by_rank:
            fresh = np.column_stack([_binned(by_rank.get(r), end, width, count) for r in ranks])
            old = older[1].get(metric, np.full((len(older[0]), len(ranks)), np.nan))
            of[metric] = np.vstack([old, fresh])
    whole = Picture(job, ranks, times, of, width)
    return whole if _judge(whole) else None


def _judge(whole: Picture) -> bool:
    """Find the usual step and the one of now; False where there are too few bins."""
    told = ~np.isnan(whole.of[STEP]).all(axis=1)
    if STEPS in whole.of:
        counted = np.nan_to_num(whole.of[STEPS], nan=np.inf).min(axis=1)
        told &= counted >= FEW
    kept = np.flatnonzero(told)
    if len(kept) < FEW:
        return False
    whole.times, whole.of = whole.times[kept], {m: v[kept] for m, v in whole.of.items()}
    span = max(RECENT, (FEW - 0.5) * whole.width)
    whole.recent = whole.times > whole.times[-1] - span
    line = whole.line
    whole.step = float(np.median(line[whole.recent]))
    steps = np.abs(np.diff(line))
    whole.noise = MAD_TO_SIGMA * float(np.median(steps)) / np.sqrt(2.0) if len(steps) else 0.0
    warm = whole.times >= whole.times[0] + (WARM if len(kept) > 3 * FEW else 0.0)
    usual = np.sort(line[~whole.recent & warm])
    if len(usual) < FEW:
        usual = np.sort(line[~whole.recent])
    whole.base = float(usual[len(usual) // 5]) if len(usual) >= FEW else 0.0
    limit = max(1.05 * whole.base, whole.base + 2.0 * whole.noise)
    whole.good = ~whole.recent & (line <= limit)
    return True


def _older(
    window: Window, job: Job, ranks: tuple[str, ...], before: float
) -> tuple[Floats, dict[str, Floats]]:
    """Minutes that ended before the bins begin."""
    found: dict[str, Floats] = {}
    by_metric = {m: _by_rank(window.minutes(m, HISTORY, "mean", job=job.name)) for m in PARTS}
    stamps = sorted({t for s in by_metric[STEP].values() for t in s.times if t + 60.0 <= before})
    times = np.array(stamps)
    if not len(times):
        return np.zeros(0), {}
    for metric, by_rank in by_metric.items():
        columns = []
        for rank in ranks:
            column = np.full(len(times), np.nan)
            series = by_rank.get(rank)
            if series is not None:
                inside = np.isin(series.times, times)
                column[np.searchsorted(times, series.times[inside])] = series.values[inside]
            columns.append(column)
        found[metric] = np.column_stack(columns)
    return times + 60.0, found


def _by_rank(found: list[Series]) -> Mapping[str, Series]:
    return {s.labels["rank"]: s for s in found if "rank" in s.labels and len(s.times)}


def _binned(series: Series | None, end: float, width: float, count: int) -> Floats:
    means = np.full(count, np.nan)
    if series is None:
        return means
    first, last = np.searchsorted(series.times, (end - count * width, end), side="right")
    index = count - 1 - ((end - series.times[first:last]) / width).astype(int)
    number = np.bincount(index, minlength=count)
    total = np.bincount(index, series.values[first:last], minlength=count)
    means[number > 0] = total[number > 0] / number[number > 0]
    return means


def _spacing(series: Series) -> float:
    return float(np.median(np.diff(series.times))) if len(series.times) > 1 else 0.0


def stages(picture: Picture, count: int) -> Iterator[list[int]]:
    """The columns of each pipeline stage's ranks, stages being numbered outermost."""
    world = picture.job.world or len(picture.ranks)
    size = world // count
    found: defaultdict[int, list[int]] = defaultdict(list)
    for column, rank in enumerate(picture.ranks):
        found[int(rank) // size if size and rank.isdigit() else 0].append(column)
    yield from (found[stage] for stage in sorted(found))
