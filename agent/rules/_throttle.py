"""How much of the time a GPU was slowed down, by its reason: shared by the rules on throttling."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from gpudiag.agent.rules.contract import Evidence
from gpudiag.agent.window import Series, Window

ACTIVE = "gpudiag_gpu_throttle_active"
SECONDS = "gpudiag_gpu_throttle_seconds_total"
CLOCK = "gpudiag_gpu_clock_hertz"
READS = frozenset({ACTIVE, SECONDS})

# Samples that a flag must stand in, and that its spans must hold, whatever the interval. A duration
# counter misses nothing between two readings, so that its spans need fewer.
FEW = 3
FLAG_SPACINGS = (6.0, 3.0)
COUNTER_SPACINGS = (3.0, 1.0)
READ_BACK = 480.0


class Share(NamedTuple):
    """Part (0-1) of a span that one GPU was slowed, and of its newest part; `since` it began."""

    labels: dict[str, str]
    reason: str
    ratio: float
    recent: float
    seconds: float
    since: float


def shares(
    window: Window, reasons: Iterable[str], seconds: float, recent: float
) -> Iterator[Share]:
    """The share of every GPU and reason; of flag and duration counter the one that says more."""
    for reason in reasons:
        found: dict[str, Share] = {}
        for metric, measure in ((ACTIVE, _flagged), (SECONDS, _counted)):
            for series in window.series(metric, READ_BACK, reason=reason):
                share = measure(series, reason, seconds, recent)
                uuid = series.labels.get("uuid", "")
                if share and (uuid not in found or share.ratio > found[uuid].ratio):
                    found[uuid] = share
        yield from found.values()


def _flagged(series: Series, reason: str, seconds: float, recent: float) -> Share | None:
    times, values = series.times, series.values
    if len(times) < 2:
        return None
    if not values.any():
        return Share(series.labels, reason, 0.0, 0.0, seconds, 0.0)
    spacing = float(np.median(np.diff(times)))
    span = max(seconds, FLAG_SPACINGS[0] * spacing)
    inside = values[times > times[-1] - span]
    newest = values[times > times[-1] - max(recent, FLAG_SPACINGS[1] * spacing)]
    ratio = float(inside.sum()) * spacing / span if inside.sum() >= FEW else 0.0
    since = float(times[values > 0.0][0])
    return Share(series.labels, reason, min(ratio, 1.0), float(newest.mean()), span, since)


def _counted(series: Series, reason: str, seconds: float, recent: float) -> Share | None:
    times, values = series.times, series.values
    if len(times) < 2:
        return None
    if values[-1] == values[0]:
        return Share(series.labels, reason, 0.0, 0.0, seconds, 0.0)
    spacing = float(np.median(np.diff(times)))
    span = max(seconds, COUNTER_SPACINGS[0] * spacing)
    first = int(np.searchsorted(times, times[-1] - span))
    late = int(np.searchsorted(times, times[-1] - max(recent, COUNTER_SPACINGS[1] * spacing)))
    grew = values[-1] - values[first]
    newest = (values[-1] - values[late]) / max(times[-1] - times[late], spacing)
    since = float(times[int(np.argmax(np.diff(values) > 0.0))])
    return Share(series.labels, reason, float(min(grew / span, 1.0)), float(newest), span, since)


def clock_of(window: Window, uuid: str) -> tuple[float, float | None] | None:
    """The GPU's SM clock and the median of the others', Hz; None where it is not known."""
    clocks = {p.labels.get("uuid", ""): p.value for p in window.latest(CLOCK, clock="sm")}
    if uuid not in clocks:
        return None
    others = [clock for other, clock in clocks.items() if other != uuid]
    return clocks[uuid], float(np.median(others)) if others else None


def clock_words(window: Window, uuid: str) -> str:
    """`; its SM clock is 1.21 GHz where its peers run at 1.98 GHz`, or less where less is known."""
    found = clock_of(window, uuid)
    if found is None:
        return ""
    own, others = found
    text = f"; its SM clock is {own / 1e9:.2f} GHz"
    return text if others is None else f"{text} where its peers run at {others / 1e9:.2f} GHz"


def clock_evidence(window: Window, uuid: str) -> list[Evidence]:
    """The SM clock as a fact, with its peers' as what was expected."""
    found = clock_of(window, uuid)
    if found is None:
        return []
    own, others = found
    expected = "" if others is None else f"{others / 1e9:.2f} GHz, as its peers"
    return [Evidence(CLOCK, own, "hertz", expected, {"uuid": uuid, "clock": "sm"})]
