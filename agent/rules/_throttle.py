"""How much of the time a GPU was slowed down, by its reason: shared by the rules on throttling."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from gpudiag.agent.rules.contract import Evidence, Limits
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
    """Part (0-1) of the last `seconds` that one GPU was slowed; `since` it began.

    `recent` is the part of the newest of them, `spread` the lesser part of both halves of
    `READ_BACK`: what comes and goes for long.
    """

    labels: dict[str, str]
    reason: str
    ratio: float = 0.0
    recent: float = 0.0
    spread: float = 0.0
    seconds: float = 0.0
    since: float = 0.0

    def lasts(self, limits: Limits) -> bool:
        """Whether that is more than a blip."""
        now = self.ratio >= limits["share"] and self.recent >= limits["share"]
        return now or self.spread >= limits["spread"]

    @property
    def weight(self) -> tuple[float, float]:
        """For the choice between several shares of one GPU."""
        return max(self.ratio, self.spread), self.recent

    @property
    def words(self) -> str:
        """`42% of the last 2 min`, of the span in which it shows."""
        if self.spread > self.ratio:
            return f"over {self.spread:.0%} of the last {READ_BACK / 60:.0f} min"
        return f"{self.ratio:.0%} of the last {self.seconds / 60:.0f} min"


def shares(
    window: Window, reasons: Iterable[str], seconds: float, recent: float
) -> Iterator[Share]:
    """The share of every GPU and reason; of flag and duration counter the one that says more."""
    for reason in reasons:
        found: dict[str, Share] = {}
        for metric, measure in ((ACTIVE, _flagged), (SECONDS, _counted)):
            for series in window.series(metric, READ_BACK, reason=reason):
                if len(series.times) < 2:
                    continue
                share = measure(series, reason, seconds, recent)
                uuid = series.labels.get("uuid", "")
                if uuid not in found or share.weight > found[uuid].weight:
                    found[uuid] = share
        yield from found.values()


def _flagged(series: Series, reason: str, seconds: float, recent: float) -> Share:
    times, values = series.times, series.values
    if not values.any():
        return Share(series.labels, reason)
    spacing = float(np.median(np.diff(times)))
    span = max(seconds, FLAG_SPACINGS[0] * spacing)
    inside = values[times > times[-1] - span].sum()
    newest = values[times > times[-1] - max(recent, FLAG_SPACINGS[1] * spacing)]
    halves = [float(half.mean()) for half in np.array_split(values, 2)]
    whole = times[-1] - times[0] >= READ_BACK - 2.0 * spacing and values.sum() >= FEW
    return Share(
        series.labels,
        reason,
        ratio=min(float(inside) * spacing / span, 1.0) if inside >= FEW else 0.0,
        recent=float(newest.mean()),
        spread=min(halves) if whole else 0.0,
        seconds=span,
        since=float(times[values > 0.0][0]),
    )


def _counted(series: Series, reason: str, seconds: float, recent: float) -> Share:
    times, values = series.times, series.values
    if values[-1] == values[0]:
        return Share(series.labels, reason)
    spacing = float(np.median(np.diff(times)))
    span = max(seconds, COUNTER_SPACINGS[0] * spacing)
    whole = times[-1] - times[0] >= READ_BACK - 2.0 * spacing
    middle = float(times[0] + times[-1]) / 2.0
    older = (np.interp(middle, times, values) - values[0]) / max(middle - times[0], spacing)
    return Share(
        series.labels,
        reason,
        ratio=min(_rate(series, span) * min(1.0, (times[-1] - times[0]) / span), 1.0),
        recent=_rate(series, max(recent, COUNTER_SPACINGS[1] * spacing)),
        spread=min(float(older), _rate(series, times[-1] - middle)) if whole else 0.0,
        seconds=span,
        since=float(times[int(np.argmax(np.diff(values) > 0.0))]),
    )


def _rate(series: Series, seconds: float) -> float:
    """Seconds throttled for each second of the last `seconds`, or of as many as there are."""
    times, values = series.times, series.values
    start = max(times[-1] - seconds, times[0])
    return float((values[-1] - np.interp(start, times, values)) / (times[-1] - start))


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
