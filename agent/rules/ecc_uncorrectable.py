"""Memory errors that ECC could not correct: data on the GPU was lost."""

from __future__ import annotations

from collections.abc import Iterator

from gpudiag.agent.rules._gpus import addressed, gpu, title
from gpudiag.agent.rules.contract import (
    Diagnosis,
    Evidence,
    Healthy,
    Limits,
    Rule,
    Suggestion,
    Threshold,
    Verdict,
)
from gpudiag.agent.window import Point, Window

ERRORS = "gpudiag_gpu_ecc_errors_total"
PENDING = "gpudiag_gpu_row_remap_pending"
FAILED = "gpudiag_gpu_row_remap_failed"
SRAM = "gpudiag_gpu_sram_ecc_threshold_exceeded"


def check(window: Window, limits: Limits) -> Iterator[Verdict]:
    """Judge every GPU that counts uncorrected errors; corrected ones are ECC at work."""
    counted: dict[str, list[Point]] = {}
    for point in window.latest(ERRORS, kind="uncorrected"):
        counted.setdefault(point.labels.get("uuid", ""), []).append(point)
    some = any(p.value for points in counted.values() for p in points)
    news = _news(window, limits) if some else {}
    for uuid, points in counted.items():
        new, when = news.get(uuid, (0.0, 0.0))
        # What is volatile goes with a reset: zero again means that one has happened.
        volatile = next((p.value for p in points if p.labels.get("scope") == "volatile"), None)
        if new and volatile != 0.0:
            yield _diagnosis(window, points[0].labels, new, when)
        elif volatile:
            yield _earlier(points[0].labels, volatile)
        else:
            yield Healthy(gpu(uuid))


def _news(window: Window, limits: Limits) -> dict[str, tuple[float, float]]:
    """How many errors came lately, by the counter that saw most, and when the first of them."""
    found: dict[str, tuple[float, float]] = {}
    for series in window.series(ERRORS, limits["recent"], kind="uncorrected"):
        values, uuid = series.values, series.labels.get("uuid", "")
        more = float(values[-1] - values[0]) if len(values) else 0.0
        if more > found.get(uuid, (0.0, 0.0))[0]:
            rose = int((values[1:] > values[:-1]).argmax())
            found[uuid] = more, float(series.times[rose + 1])
    return found


def _diagnosis(window: Window, labels: dict[str, str], new: float, when: float) -> Diagnosis:
    uuid = labels["uuid"]
    beside = [
        Evidence(metric, value, expected="0", labels={"uuid": uuid})
        for metric in (PENDING, FAILED, SRAM)
        if (value := window.value(metric, uuid=uuid)) is not None
    ]
    worn = any(e.value for e in beside if e.name in (FAILED, SRAM))
    errors = "an ECC error" if new == 1 else f"{new:.0f} ECC errors"
    end = ", and the spare rows are used up: replace it." if worn else "."
    return Diagnosis(
        subject=gpu(uuid),
        cause="ecc-uncorrectable",
        confidence=0.95,
        summary=f"{title(labels)} had {errors} that could not be corrected; what ran on it lost"
        f" data{end}",
        evidence=(Evidence(ERRORS, new, expected="0 in 1 h", labels={"uuid": uuid}), *beside),
        actions=addressed(_REPLACE if worn else _RESET, uuid),
        since=when,
    )


def _earlier(labels: dict[str, str], volatile: float) -> Diagnosis:
    uuid = labels["uuid"]
    return Diagnosis(
        subject=gpu(uuid),
        cause="ecc-uncorrectable",
        confidence=0.6,
        summary=f"{title(labels)} counts {volatile:.0f} uncorrectable memory errors since its last"
        " reset, none of them lately.",
        evidence=(
            Evidence(ERRORS, volatile, labels={"uuid": uuid, "scope": "volatile"}, expected="0"),
        ),
        actions=(Suggestion("observe", "Reset the GPU when it is next free."),),
        severity="info",
    )


_RESET = (
    Suggestion("restart", "Restart the application that was hit, from its last checkpoint."),
    Suggestion("drain", "Move the work off this GPU, then `nvidia-smi --gpu-reset -i UUID`."),
)
_REPLACE = (Suggestion("drain", "Take the GPU out of service and have it replaced."),)

RULE = Rule(
    check=check,
    reads=frozenset({ERRORS}),
    clear=0.0,
    thresholds={
        "recent": Threshold(3600.0, "seconds", "an error older than that is history, not news"),
    },
)
