"""Native histograms as the classic ones that rules read: cumulative counts at fixed bounds."""

from __future__ import annotations

import numpy as np

from gpudiag.agent.history.answers import Native, Series
from gpudiag.agent.recording.timeline import Floats

BOUNDS: Floats = np.array([*(2.0 ** (half / 2.0) for half in range(-20, 35)), np.inf])
"""1 ms to 131,072 (seconds or tokens), two bounds in each doubling: a quantile is off by 20 % at
most, as one out of the usual classic buckets."""


def classic(series: Series) -> list[Series]:
    """The `_bucket`, `_sum` and `_count` series of a native histogram.

    A count inside a bucket that a bound cuts is spread evenly over the bucket.
    """
    moments = [(at, one, _cumulative(one)) for at, one in series.natives]
    times = np.array([at for at, _, _ in moments])
    rows = np.array([counts for _, _, counts in moments]).reshape(-1, len(BOUNDS))
    buckets = [
        Series(
            f"{series.metric}_bucket",
            tuple(sorted((*series.labels, ("le", "+Inf" if bound == np.inf else f"{bound:g}")))),
            times,
            rows[:, column],
        )
        for column, bound in enumerate(BOUNDS)
    ]
    totals = {
        "_sum": np.array([float(one.sum) for _, one, _ in moments]),
        "_count": np.array([float(one.count) for _, one, _ in moments]),
    }
    return buckets + [
        Series(series.metric + part, series.labels, times, values)
        for part, values in totals.items()
    ]


def _cumulative(one: Native) -> Floats:
    """Counts at or below each of `BOUNDS`."""
    if not one.buckets:
        return np.full(len(BOUNDS), float(one.count))
    edges = np.array([[float(low), float(high), float(n)] for _, low, high, n in one.buckets])
    low, high, count = edges.T
    width = np.where(high > low, high - low, 1.0)
    inside = np.clip((BOUNDS[:, None] - low) / width, 0.0, 1.0)
    inside = np.where(np.isnan(inside), (BOUNDS[:, None] >= high).astype(float), inside)
    return np.asarray(inside @ count)
