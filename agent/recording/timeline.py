"""Samples and events of a recording in the order of their times, cut as a replay asks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import isfinite

import numpy as np
import numpy.typing as npt

from gpudiag.agent.recording.expectations import NOTHING, Expectations
from gpudiag.probes import Event, Labels, Sample
from gpudiag.probes.errors import UsageError

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int32]

SeriesKey = tuple[str, Labels]
Columns = tuple[SeriesKey, Floats, Floats]
"""One series whole: its key, its times and its values, both of shape (n,)."""


@dataclass(frozen=True, slots=True)
class Timeline:
    """All that was recorded from `start` to `end` (epoch seconds; an incident starts at 0).

    `interval` is the usual spacing of samples in seconds. `times`, `values` and `series` (an
    index into `keys`) have shape (samples,), ascending in time.
    """

    start: float
    end: float
    interval: float
    keys: tuple[SeriesKey, ...]
    times: Floats
    values: Floats
    series: Ints
    events: tuple[Event, ...]
    expectations: Expectations = NOTHING

    def samples(self, first: int, until: float) -> tuple[list[Sample], int]:
        """Samples from index `first` up to the time `until` with it, and the next index."""
        last = int(np.searchsorted(self.times, until, side="right"))
        keys = self.keys
        chosen = map(keys.__getitem__, self.series[first:last].tolist())
        rows = zip(
            chosen, self.times[first:last].tolist(), self.values[first:last].tolist(), strict=True
        )
        return [Sample(key[0], key[1], time, value) for key, time, value in rows], last

    def batches(self, step: float) -> Iterator[tuple[float, list[Sample], list[Event], bool]]:
        """Time, samples and events at every `step` seconds and at each event; True on the step.

        The last batch is at `end`, whether or not a step falls on it.
        """
        sample, event, tick = 0, 0, 0
        while True:
            on_step = min(self.start + tick * step, self.end)
            at_event = self.events[event].time if event < len(self.events) else on_step
            # A kernel log reaches back before the start: what is older counts from the start on.
            now = min(on_step, max(at_event, self.start))
            samples, sample = self.samples(sample, now)
            past = event
            while past < len(self.events) and self.events[past].time <= now:
                past += 1
            yield now, samples, list(self.events[event:past]), now == on_step
            event = past
            if now == on_step:
                if now >= self.end:
                    return
                tick += 1


def timeline(
    columns: Sequence[Columns],
    events: Iterable[Event],
    *,
    start: float | None = None,
    interval: float | None = None,
    expectations: Expectations = NOTHING,
) -> Timeline:
    """Series and events merged in time. Where they are not given, `start` is the first sample
    (without samples, the first event) and `interval` the median distance between sample times.
    """
    times = np.concatenate([c[1] for c in columns]) if columns else np.empty(0)
    values = np.concatenate([c[2] for c in columns]) if columns else np.empty(0)
    lengths = [len(c[1]) for c in columns]
    series = np.repeat(np.arange(len(columns), dtype=np.int32), lengths)
    # Stable: samples of one moment keep the order of their series, so a replay repeats exactly.
    order = np.argsort(times, kind="stable")
    times = times[order]
    ordered = tuple(sorted(events, key=lambda e: e.time))
    moments = [*times[:1].tolist(), *times[-1:].tolist(), *(e.time for e in ordered)]
    begin = start if start is not None else moments[0] if moments else 0.0
    if not all(map(isfinite, (begin, *moments))):
        raise UsageError("a time in it is no number: times are seconds since 1970")
    return Timeline(
        start=begin,
        end=max([begin, *moments]),
        interval=_spacing(times) if interval is None else interval,
        keys=tuple(c[0] for c in columns),
        times=times,
        values=values[order],
        series=series[order],
        events=ordered,
        expectations=expectations,
    )


def _spacing(times: Floats) -> float:
    gaps = np.diff(np.unique(times))
    return float(np.median(gaps)) if len(gaps) else 0.0
