"""What a loss curve does: whether it jumped, climbs away, or differs between ranks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gpudiag.agent.analysis.stats import MAD_TO_SIGMA
from gpudiag.agent.rules.contract import Limits
from gpudiag.agent.window import Series

Floats = npt.NDArray[np.float64]

FEW = 8
SMOOTH = 5


class Rise(NamedTuple):
    """The loss stands above its `best` since `since`, now at `value`; `samples` that many."""

    best: float
    value: float
    since: float
    samples: int
    falling: bool


class Apart(NamedTuple):
    """One rank's value of late, and its peers'."""

    rank: str
    own: float
    peers: float
    since: float


def best_of(values: Floats) -> float:
    """The lowest level it held, as the least median of neighbouring readings."""
    if len(values) < SMOOTH:
        return float(np.median(values))
    rows = np.lib.stride_tricks.sliding_window_view(values, SMOOTH)
    return float(np.median(rows, axis=1).min())


def scatter(values: Floats) -> float:
    """How far neighbouring readings differ, as a sigma of one."""
    steps = np.abs(np.diff(values))
    return MAD_TO_SIGMA * float(np.median(steps)) / float(np.sqrt(2.0)) if len(steps) else 0.0


def rise(times: Floats, values: Floats, limits: Limits) -> Rise | None:
    """How the newest readings stand above the best level before; None where they do not."""
    if len(values) < FEW:
        return None
    best, sigma = best_of(values[:-2]), scatter(values[:-2])
    limit = best + max(limits["sigmas"] * sigma, limits["raised"] * abs(best))
    far = best + max(limits["sigmas"] * sigma, limits["jumped"] * abs(best))
    high = values >= limit
    if not high[-1] or not (values[-1] >= far or high[-3:].sum() >= 2):
        return None
    # One reading that dips ends no climb; two in a row do.
    ends = np.flatnonzero(~high[1:] & ~high[:-1])
    first = int(ends[-1]) + 2 if len(ends) else 0
    first += int(high[first:].argmax())
    stretch = values[first:]
    top = float(stretch.max())
    falling = float(np.median(stretch[-3:])) < best + 0.5 * (top - best)
    return Rise(best, float(values[-1]), float(times[first]), len(stretch), falling)


def apart(by_rank: Mapping[str, Series], limits: Limits) -> Apart | None:
    """The rank whose readings have left its peers' for good; None where none has."""
    ranks = sorted(by_rank, key=lambda r: int(r) if r.isdigit() else 0)
    rows = min(len(by_rank[r].values) for r in ranks)
    if len(ranks) < 2 or rows < FEW:
        return None
    table = np.column_stack([by_rank[r].values[-rows:] for r in ranks])
    times = by_rank[ranks[0]].times[-rows:]
    late = max(SMOOTH, int(np.sum(times > times[-1] - limits["lasting"])))
    if rows < 2 * late:
        return None
    now, before = np.median(table[-late:], axis=0), table[:-late]
    centre = np.median(now) if len(ranks) > 2 else _steadier(table, late)
    off = np.abs(now - centre)
    worst = int(off.argmax())
    sigma = max(scatter(table[:, column]) for column in range(len(ranks)))
    usual = float(np.median(np.abs(before - np.median(before, axis=1, keepdims=True))))
    floor = max(limits["sigmas"] * max(sigma, usual), limits["raised"] * abs(float(centre)))
    rest = np.delete(off, worst)
    held = np.abs(table[-late:, worst] - centre) >= floor / 2.0
    if off[worst] < floor or rest.max() > off[worst] / 3.0 or not held.all():
        return None
    return Apart(ranks[worst], float(now[worst]), float(centre), float(times[-late]))


def _steadier(table: Floats, late: int) -> float:
    """Of two ranks the one that stays nearer to what both were is the yardstick."""
    before, now = np.median(table[:-late]), np.median(table[-late:], axis=0)
    return float(now[int(np.abs(now - before).argmin())])
