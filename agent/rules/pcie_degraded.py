"""The PCIe link of a GPU runs below its maximum under load."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from gpudiag.agent.rules._gpus import gpu, title
from gpudiag.agent.rules._spans import FEW, held_since, tail
from gpudiag.agent.rules.contract import (
    Diagnosis,
    Evidence,
    Healthy,
    Limits,
    Rule,
    Suggestion,
    Threshold,
    Unknown,
    Verdict,
)
from gpudiag.agent.window import Series, Window

GENERATION = "gpudiag_gpu_pcie_link_generation"
WIDTH = "gpudiag_gpu_pcie_link_width"
REPLAYS = "gpudiag_gpu_pcie_replays_total"
RX = "gpudiag_gpu_pcie_rx_bytes_total"
TX = "gpudiag_gpu_pcie_tx_bytes_total"
BUSY = "gpudiag_gpu_utilization_ratio"
ACTIVE = "gpudiag_gpu_sm_active_ratio"
POWER = "gpudiag_gpu_power_watts"
LIMIT = "gpudiag_gpu_power_limit_watts"

BACK = 480.0
MANY = 4
# DCGM's limits, replays a minute and lane, for generations 1 to 6.
REPLAY_LIMITS = (0.15, 0.3, 0.48, 0.96, 1.92, 3.84)


class _Short(NamedTuple):
    """A link below its maximum: in which of the two, at what, of what, and since when."""

    metric: str
    now: float
    most: float
    since: float


def check(window: Window, limits: Limits) -> Iterator[Verdict]:
    """Judge every GPU that tells of its link; Gen1 at idle saves power and is normal."""
    links: dict[str, dict[str, str]] = {}
    below: dict[str, list[_Short]] = {}
    for metric in (GENERATION, WIDTH):
        most = {p.labels.get("uuid"): p.value for p in window.latest(f"{metric}_max")}
        for point in window.latest(metric):
            uuid = point.labels.get("uuid", "")
            if uuid not in most:
                continue
            links.setdefault(uuid, point.labels)
            if point.value < most[uuid] and (
                short := _lasting(window, limits, metric, uuid, most[uuid])
            ):
                below.setdefault(uuid, []).append(short)
    loads = {uuid: _loaded(window, limits, uuid) for uuid in below}
    slow = {uuid for uuid, loaded in loads.items() if loaded}
    replays = dict(_replaying(window, limits))
    # An exporter may count replays and say nothing of the link itself.
    counting = {p.labels["uuid"]: p.labels for p in window.latest(REPLAYS) if "uuid" in p.labels}
    # Where all are alike the slots or the firmware set the pace: a fact, not a fault.
    alike = len(slow) >= MANY and slow == links.keys()
    for uuid, labels in (counting | links).items():
        if uuid in slow or uuid in replays:
            shorts = below[uuid] if uuid in slow else []
            yield _diagnosis(window, labels, shorts, replays.get(uuid, 0.0), alike=alike)
        elif uuid in below and loads[uuid] is None:
            yield Unknown(gpu(uuid), (f"{BUSY}: a slow link at idle is normal",))
        else:
            yield Healthy(gpu(uuid))


def _lasting(window: Window, limits: Limits, metric: str, uuid: str, most: float) -> _Short | None:
    for series in window.series(metric, BACK, uuid=uuid):
        recent = tail(series, limits["lasting"])
        if recent is not None and (recent.values < most).all():
            since = held_since(series, series.values < most)
            first = float(recent.times[0])
            value = float(recent.values[-1])
            return _Short(metric, value, most, first if since is None else since)
    return None


def _loaded(window: Window, limits: Limits, uuid: str) -> bool | None:
    """Whether the GPU works hard enough to want its link; None where nothing tells."""
    told = None
    half = _half_power(window, limits, uuid)
    for metric, least in ((BUSY, limits["busy"]), (ACTIVE, limits["busy"]), (POWER, half)):
        for series in window.series(metric, BACK, uuid=uuid):
            recent = tail(series, limits["lasting"])
            if recent is not None:
                told = told or bool(np.quantile(recent.values, 0.25) >= least)
    for metric in (RX, TX):
        for series in window.series(metric, BACK, uuid=uuid):
            recent = tail(series, limits["lasting"])
            if recent is not None:
                told = told or _rate(recent) >= limits["traffic"]
    return told


def _half_power(window: Window, limits: Limits, uuid: str) -> float:
    limit = window.value(LIMIT, uuid=uuid)
    return float("inf") if limit is None else limits["power"] * limit


def _rate(series: Series) -> float:
    run = float(series.times[-1] - series.times[0])
    return float(series.values[-1] - series.values[0]) / run if run else 0.0


def _replaying(window: Window, limits: Limits) -> Iterator[tuple[str, float]]:
    """GPUs whose packets are sent again more often than DCGM allows, with replays a minute."""
    for series in window.series(REPLAYS, BACK):
        if not len(series.values) or series.values[-1] == series.values[0]:
            continue
        recent, uuid = tail(series, limits["replaying"]), series.labels.get("uuid", "")
        if recent is None or (np.diff(recent.values) > 0.0).sum() < FEW:
            continue
        generation = window.value(GENERATION, uuid=uuid) or 4.0
        lanes = window.value(WIDTH, uuid=uuid) or 16.0
        allowed = REPLAY_LIMITS[min(max(int(generation), 1), len(REPLAY_LIMITS)) - 1] * lanes
        a_minute = 60.0 * _rate(recent)
        if a_minute >= allowed:
            yield uuid, a_minute


def _diagnosis(
    window: Window, labels: dict[str, str], shorts: list[_Short], replays: float, *, alike: bool
) -> Diagnosis:
    uuid = labels["uuid"]
    said = [_words(short) for short in shorts]
    said += [f"packets are sent again {replays:.0f} times a minute"] if replays else []
    evidence = [
        Evidence(s.metric, s.now, expected=f"{s.most:.0f} under load", labels={"uuid": uuid})
        for s in shorts
    ]
    if replays:
        evidence.append(Evidence(REPLAYS, replays, "per minute", labels={"uuid": uuid}))
    busy = window.value(BUSY, uuid=uuid)
    if busy is not None:
        evidence.append(Evidence(BUSY, busy, "ratio", labels={"uuid": uuid}))
    text = f"{title(labels)}: {' and '.join(said)}{' under load' if shorts else ''}."
    if alike:
        text += " All GPUs of the node are alike: a limit of the slots or the firmware."
    return Diagnosis(
        subject=gpu(uuid),
        cause="pcie-degraded",
        confidence=0.5 if alike else 0.9 if shorts else 0.7,
        summary=text,
        evidence=tuple(evidence),
        actions=_ACTIONS,
        severity="info" if alike and not replays else None,
        since=min((s.since for s in shorts), default=None),
    )


def _words(short: _Short) -> str:
    if short.metric == GENERATION:
        return f"its PCIe link runs at Gen{short.now:.0f} of Gen{short.most:.0f}"
    return f"its PCIe link runs {short.now:.0f} lanes wide of {short.most:.0f}"


_ACTIONS = (
    Suggestion("notify", "Look for AER lines in `dmesg`; compare `nvidia-smi -q -d PCIE`."),
    Suggestion("drain", "Drain the node and reseat the GPU or its riser; then check the link."),
)

RULE = Rule(
    check=check,
    reads=frozenset({GENERATION, WIDTH, REPLAYS, RX, TX, BUSY, ACTIVE, POWER}),
    hold=15.0,
    clear=120.0,
    thresholds={
        "lasting": Threshold(60.0, "seconds", "links change speed within a second of load"),
        "busy": Threshold(0.3, "ratio", "below it a GPU may let its link rest"),
        "power": Threshold(0.5, "ratio", "of its limit; no idle GPU draws half"),
        "traffic": Threshold(1e9, "bytes per second", "more than Gen1 at 4 lanes can carry"),
        "replaying": Threshold(180.0, "seconds", "a burst of replays is corrected in passing"),
    },
)
