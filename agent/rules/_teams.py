"""Ranks that do the same work, their times side by side: shared by the rules on training jobs."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gpudiag.agent.analysis.stats import MAD_TO_SIGMA
from gpudiag.agent.window import Series, Window

Floats = npt.NDArray[np.float64]

INFO = "gpudiag_train_info"
STEPS = "gpudiag_train_steps_total"
STEP = "gpudiag_train_step_seconds"
COMPUTE = "gpudiag_train_compute_seconds"
DATA = "gpudiag_train_data_wait_seconds"
COMM = "gpudiag_train_comm_wait_seconds"
CHECKPOINT = "gpudiag_train_checkpoint_seconds"
GC = "gpudiag_train_gc_pause_seconds"
LAG = "gpudiag_train_arrival_lag_seconds"
LAST = "gpudiag_train_last_arrivals_ratio"
READS = frozenset({STEPS, STEP, COMPUTE, DATA, COMM, CHECKPOINT, GC, LAG, LAST})

BACK = 600.0
BIN_SECONDS = 5.0
BIN_SPACINGS = 1.5
WARM_STEPS = 10.0

# How many more bins are looked at than are wanted: those of checkpoints are left out.
MARGIN = 3
WARM_SECONDS = 60.0

# Enough readings for a spread of their own; with two ranks each is the other's mirror image.
ENOUGH = 4


@dataclass(slots=True)
class Team:
    """The ranks of one job and pipeline stage, ascending, with their times (bins, ranks) in s.

    Bins are of `width` seconds, oldest first, ending at the newest reading; those of the warm-up
    and of checkpoints are left out. `pipeline` is the number of stages, `began` when the first
    reading of them all was made, as far as it is looked back.
    """

    job: str
    ranks: tuple[str, ...]
    pipeline: int
    width: float
    began: float
    ends: Floats
    times: Mapping[str, Floats]
    uuids: Mapping[str, str] = field(default_factory=dict)

    def known(self, metric: str) -> bool:
        """Whether every rank reports it."""
        return metric in self.times

    @property
    def step(self) -> float:
        """The usual time of a step, seconds."""
        return float(np.median(self.times[STEP]))


class Named(NamedTuple):
    """The rank that stands out, by how much a step (s), and in what share of the bins (0-1)."""

    rank: str
    excess: float
    share: float


def excess(values: Floats) -> Floats:
    """How far each value (bins, ranks >= 2) lies above the median of the others of its bin."""
    count = values.shape[1]
    order = np.argsort(values, axis=1, kind="stable")
    ranked = np.take_along_axis(values, order, axis=1)
    rank = np.arange(count)
    below, above = (count - 2) // 2, (count - 1) // 2
    # Leaving out the value of rank r moves every rank from r on down by one.
    rest = (ranked[:, below + (rank <= below)] + ranked[:, above + (rank <= above)]) / 2.0
    found = np.empty_like(values)
    np.put_along_axis(found, order, ranked - rest, axis=1)
    return found


def typical(values: Floats) -> Floats:
    """The median of each rank over the bins that all ranks told of; NaN where there is none."""
    told = values[~np.isnan(values).any(axis=1)]
    return np.median(told, axis=0) if len(told) else np.full(values.shape[1], np.nan)


def standing_out(
    team: Team, values: Floats, floor: float, share: float, sigmas: float
) -> Named | None:
    """The rank whose values lie above its peers', bin after bin; None where it is none or changes.

    By `floor` seconds at the least, in `share` of the bins, and `sigmas` beyond the scatter of
    the others where they are enough to have one; half of the bins must have values at all.
    """
    over = excess(values[~np.isnan(values).any(axis=1)])
    if not len(over) or 2 * len(over) < len(values):
        return None
    usual = np.median(over, axis=0)
    worst = int(np.argmax(usual))
    held = float(np.mean((over.argmax(axis=1) == worst) & (over[:, worst] >= floor / 2.0)))
    if usual[worst] < floor or held < share:
        return None
    if len(team.ranks) >= ENOUGH:
        others = np.abs(np.delete(over, worst, axis=1))
        if usual[worst] < sigmas * MAD_TO_SIGMA * float(np.median(others)):
            return None
    return Named(team.ranks[worst], float(usual[worst]), held)


def teams(window: Window, bins: int) -> Iterator[Team]:
    """Every team of two ranks or more, with the newest `bins` bins that count."""
    about = _about(window)
    for job, by_metric in _jobs(window).items():
        infos = about.get(job, {})
        layout = next((of["layout"] for of in infos.values() if of.get("layout")), "")
        world = max((_whole(of.get("world_size")) for of in infos.values()), default=0)
        stages = _degree(layout, "pp")
        groups: defaultdict[int, list[str]] = defaultdict(list)
        for rank in sorted(by_metric.get(STEP, ()), key=_whole):
            groups[_stage(_whole(rank), stages, world)].append(rank)
        for ranks in groups.values():
            if len(ranks) >= 2:
                team = _team(job, tuple(ranks), by_metric, bins)
                team.pipeline = stages
                team.uuids = {r: infos[r].get("uuid", "") for r in ranks if r in infos}
                yield team


def alone(window: Window) -> Iterator[tuple[str, int, int]]:
    """Jobs of which fewer ranks are seen than they have, and only one: (job, seen, world size)."""
    for job, infos in _about(window).items():
        world = max(_whole(of.get("world_size")) for of in infos.values())
        if len(infos) == 1 < world:
            yield job, 1, world


def _about(window: Window) -> dict[str, dict[str, dict[str, str]]]:
    """What is known of each rank, by job and rank."""
    found: defaultdict[str, dict[str, dict[str, str]]] = defaultdict(dict)
    for point in window.latest(INFO):
        found[point.labels.get("job", "")][point.labels.get("rank", "")] = point.labels
    return found


def _jobs(window: Window) -> dict[str, dict[str, dict[str, Series]]]:
    found: defaultdict[str, dict[str, dict[str, Series]]] = defaultdict(dict)
    for metric in sorted(READS - {GC}):
        for series in window.series(metric, BACK):
            of = series.labels
            if len(series.times) and "rank" in of:
                found[of.get("job", "")].setdefault(metric, {})[of["rank"]] = series
    return found


def _team(
    job: str, ranks: tuple[str, ...], by_metric: Mapping[str, Mapping[str, Series]], bins: int
) -> Team:
    steps = [by_metric[STEP][rank] for rank in ranks]
    # Arrivals come more seldom than the rest; where only they tell how the ranks meet, they count.
    rarest = COMM if COMM in by_metric else LAG
    paced = [*steps, *by_metric.get(rarest, {}).values()]
    # Ranks of one node share their moments: told apart by identity, they are looked at once.
    moments = {id(series.times): series.times for series in paced}.values()
    width = max(BIN_SECONDS, BIN_SPACINGS * max(map(_spacing, moments)))
    end = max(float(s.times[-1]) for s in steps)
    count = min(int(BACK // width), MARGIN * bins)
    ends = end - width * np.arange(count - 1, -1, -1.0)
    times = {}
    for metric, by_rank in by_metric.items():
        if all(rank in by_rank for rank in ranks):
            times[metric] = _side_by_side([by_rank[rank] for rank in ranks], end, width, count)
    first = min(float(s.times[0]) for s in steps)
    saved = by_metric.get(CHECKPOINT, {}).values()
    counts = _counting(times, ends, first, saved, width)
    kept = np.flatnonzero(counts)[-bins:]
    return Team(job, ranks, 1, width, first, ends[kept], {m: v[kept] for m, v in times.items()})


def _counting(
    times: Mapping[str, Floats], ends: Floats, first: float, saved: Iterable[Series], width: float
) -> npt.NDArray[np.bool_]:
    """Which bins are past the warm-up, free of checkpoints and told of by every rank."""
    counts: npt.NDArray[np.bool_] = np.logical_not(np.isnan(times[STEP]).any(axis=1))
    if STEPS in times:
        counts &= np.nan_to_num(times[STEPS]).min(axis=1) >= WARM_STEPS
    elif first > ends[0]:
        counts &= ends >= first + WARM_SECONDS
    for series in saved:
        counts &= ~(_binned(series, float(ends[-1]), width, len(ends)) > 0.0)
    return counts


def _side_by_side(several: list[Series], end: float, width: float, count: int) -> Floats:
    """Means of the bins (count, ranks); ranks that were read at the same moments in one go."""
    if any(series.times is not several[0].times for series in several):
        return np.column_stack([_binned(series, end, width, count) for series in several])
    first, last, index = _bins(several[0], end, width, count)
    means = np.full((count, len(several)), np.nan)
    if len(index):
        starts = np.flatnonzero(np.diff(index, prepend=-1))
        values = np.column_stack([series.values[first:last] for series in several])
        number = np.diff(starts, append=len(index))
        means[index[starts]] = np.add.reduceat(values, starts) / number[:, None]
    return means


def _binned(series: Series, end: float, width: float, count: int) -> Floats:
    """Means of the bins, NaN where there is no reading."""
    first, last, index = _bins(series, end, width, count)
    number = np.bincount(index, minlength=count)
    total = np.bincount(index, series.values[first:last], minlength=count)
    means = np.full(count, np.nan)
    means[number > 0] = total[number > 0] / number[number > 0]
    return means


def _bins(
    series: Series, end: float, width: float, count: int
) -> tuple[int, int, npt.NDArray[np.int_]]:
    """From which to which reading (exclusive) the bins reach, and the bin of each, ascending."""
    first, last = np.searchsorted(series.times, (end - count * width, end), side="right")
    index = count - 1 - ((end - series.times[first:last]) / width).astype(int)
    return int(first), int(last), index


def _spacing(times: Floats) -> float:
    return float(np.median(np.diff(times))) if len(times) > 1 else 0.0


def _degree(layout: str, name: str) -> int:
    found = re.search(rf"(?:^|,){name}=(\d+)", layout)
    return max(int(found[1]), 1) if found else 1


def _stage(rank: int, stages: int, world: int) -> int:
    """The pipeline stage of a rank: Megatron and DeepSpeed both number stages outermost."""
    size = world // stages if stages > 1 else 0
    return rank // size if size else 0


def _whole(text: str | None) -> int:
    return int(text) if text and text.isdigit() else 0
