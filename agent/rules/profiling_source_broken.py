"""The profiling counters contradict the utilisation: SM activity reads zero on a busy GPU."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gpudiag.agent.rules._gpus import gpu, title
from gpudiag.agent.rules._spans import above_since, tail
from gpudiag.agent.rules.contract import (
    Diagnosis,
    Evidence,
    Healthy,
    Limits,
    Rival,
    Rule,
    Suggestion,
    Threshold,
    Verdict,
)
from gpudiag.agent.window import Point, Window

SM = "gpudiag_gpu_sm_active_ratio"
USED = "gpudiag_gpu_utilization_ratio"
OTHERS = (
    "gpudiag_gpu_tensor_active_ratio",
    "gpudiag_gpu_sm_occupancy_ratio",
    "gpudiag_gpu_memory_bandwidth_ratio",
)
POWER = "gpudiag_gpu_power_watts"
LOOK_BACK = 900.0


def check(window: Window, limits: Limits) -> Iterator[Verdict]:
    """Judge every GPU that has both figures: without profiling there is nothing to contradict."""
    for point in window.latest(SM):
        uuid = point.labels.get("uuid", "")
        used = window.value(USED, uuid=uuid)
        if not uuid or used is None:
            continue
        if point.value > limits["silent"]:
            yield Healthy(gpu(uuid))
        # An idle GPU rightly reads zero and says nothing of the counters.
        elif used >= limits["busy"]:
            yield from _contradiction(window, limits, point, used)


def _contradiction(
    window: Window, limits: Limits, point: Point, used: float
) -> Iterator[Diagnosis]:
    uuid = point.labels["uuid"]
    busy = window.series(USED, LOOK_BACK, uuid=uuid)[0]
    activity = window.series(SM, LOOK_BACK, uuid=uuid)[0]
    last, quiet = tail(busy, limits["lasting"]), tail(activity, limits["lasting"])
    if last is None or quiet is None:
        return
    if float(np.max(quiet.values)) > limits["silent"]:
        return
    # Work comes in batches: short idle gaps do not end the contradiction.
    if float(np.quantile(last.values, 0.25, method="lower")) < limits["busy"]:
        return
    since = max(float(quiet.times[0]), above_since(busy, limits["busy"]))
    others = [p for metric in OTHERS for p in window.latest(metric, uuid=uuid)]
    dead = bool(others) and all(p.value <= limits["silent"] for p in others)
    watts = window.value(POWER, uuid=uuid)
    yield Diagnosis(
        gpu(uuid),
        "profiling-source-broken",
        0.95 if dead else 0.85,
        f"{title(point.labels)} is {used:.0%} utilised"
        + (f" at {watts:.0f} W" if watts is not None else "")
        + f", yet its SM activity reads {point.value:.3f}: the profiling counters are not working."
        " Do not conclude from them that the job is idle.",
        _evidence(point, used, watts, limits),
        rivals=(
            Rival(
                "one small kernel",
                "a single busy SM of the largest GPU already reads 0.0068",
            ),
        ),
        missing=() if watts is not None else (f"{POWER}: is the GPU at work?",),
        actions=_ACTIONS,
        since=since,
    )


def _evidence(
    point: Point, used: float, watts: float | None, limits: Limits
) -> tuple[Evidence, ...]:
    found = [
        Evidence(SM, point.value, "ratio", f"> {limits['silent']:g} on a busy GPU", point.labels),
        Evidence(USED, used, "ratio", "near zero if the SMs were idle", point.labels),
    ]
    if watts is not None:
        found.append(Evidence(POWER, watts, "watts", "", point.labels))
    return tuple(found)


_ACTIONS = (
    Suggestion(
        "notify",
        "Look for a second profiler (DCGM profiling, Nsight, CUPTI) on this GPU: before Hopper"
        " only one may hold the counters (`dcgmi profile --pause`, then `--resume`).",
    ),
    Suggestion("observe", "Judge this GPU by utilisation, power and step time until mended."),
)

RULE = Rule(
    check=check,
    reads=frozenset({SM, USED}),
    thresholds={
        "silent": Threshold(
            0.005, "ratio", "below one busy SM of the largest GPU: 1 of 148 on a B200"
        ),
        "busy": Threshold(0.9, "ratio", "utilisation that leaves no doubt that kernels run"),
        "lasting": Threshold(60.0, "seconds", "GPM and utilisation use different sampling periods"),
    },
)
