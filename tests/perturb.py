"""Variants of a recording that must not change what it is diagnosed as."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from gpudiag.agent.recording.timeline import Timeline
from gpudiag.probes import catalog

Variant = Callable[[Timeline, np.random.Generator], Timeline]

HOUR = 3600.0
NOISY_UNITS = ("bytes", "celsius", "watts", "hertz", "seconds")
SCALE = 1.7


def kept(timeline: Timeline, keep: np.ndarray) -> Timeline:
    """The recording with some of its samples only."""
    return replace(
        timeline,
        times=timeline.times[keep],
        values=timeline.values[keep],
        series=timeline.series[keep],
    )


def fewer_samples(timeline: Timeline, rng: np.random.Generator) -> Timeline:
    """One sample in ten is lost, the parts of a histogram together: they come in one answer."""
    families = [
        metric.removesuffix("_bucket").removesuffix("_sum").removesuffix("_count")
        + str(sorted(pair for pair in labels if pair[0] != "le"))
        for metric, labels in timeline.keys
    ]
    number = np.unique(families, return_inverse=True)[1][timeline.series]
    round_ = np.unique(timeline.times, return_inverse=True)[1]
    lost = rng.random((number.max(initial=0) + 1, round_.max(initial=0) + 1)) <= 0.1
    return kept(timeline, ~lost[number, round_])


def doubled_interval(timeline: Timeline, _: np.random.Generator) -> Timeline:
    """Only every second round of samples was taken."""
    moments = np.unique(timeline.times)
    keep = np.isin(timeline.times, moments[::2])
    return replace(kept(timeline, keep), interval=timeline.interval * 2)


def later_start(timeline: Timeline, _: np.random.Generator) -> Timeline:
    """The same at another time of day, as a live agent would see it."""
    shift = 1_790_000_000.0 + 7 * HOUR
    events = tuple(replace(event, time=event.time + shift) for event in timeline.events)
    return replace(
        timeline,
        start=timeline.start + shift,
        end=timeline.end + shift,
        times=timeline.times + shift,
        events=events,
    )


def noise(timeline: Timeline, rng: np.random.Generator) -> Timeline:
    """Gauges wobble by a fifth of their own usual step, and by a thousandth of their value."""
    values = timeline.values.copy()
    for column, (metric, _) in enumerate(timeline.keys):
        known = catalog.metrics().get(metric)
        if known is None or known.kind != "gauge" or known.unit not in NOISY_UNITS:
            continue
        rows = timeline.series == column
        mine = values[rows]
        there = mine[np.isfinite(mine)]
        if len(there) < 3 or not there.any():
            continue
        usual = float(np.median(np.abs(np.diff(there)))) / 5
        values[rows] = mine + rng.normal(0.0, 1.0, len(mine)) * (usual + np.abs(mine) / 1000)
    return replace(timeline, values=values)


def other_scale(timeline: Timeline, _: np.random.Generator) -> Timeline:
    """A bigger model on a bigger GPU: every size in bytes is larger by the same factor."""
    units = [catalog.metrics()[m].unit if m in catalog.metrics() else "" for m, _ in timeline.keys]
    sizes = np.array([SCALE if unit == "bytes" else 1.0 for unit in units])
    return replace(timeline, values=timeline.values * sizes[timeline.series])


VARIANTS: tuple[Variant, ...] = (fewer_samples, doubled_interval, later_start, noise, other_scale)
