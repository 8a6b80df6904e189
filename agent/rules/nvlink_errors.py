"""An NVLink is down or makes errors: traffic between GPUs slows down or fails."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import numpy as np

from gpudiag.agent.rules import _sxids
from gpudiag.agent.rules._gpus import INFO, gpu, title
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
from gpudiag.agent.window import Point, Series, Window

UP = "gpudiag_gpu_nvlink_up"
ERRORS = "gpudiag_gpu_nvlink_errors_total"
BACK = 480.0
MEMORY = 7200.0
# How many readings must have risen before the small errors of a link count as its habit.
OFTEN = 3
SPACINGS = 6.0


def check(window: Window, limits: Limits) -> Iterator[Verdict]:
    """Judge every GPU whose NVLinks are told of; old counts and links never used are no fault."""
    states: defaultdict[str, list[Point]] = defaultdict(list)
    for point in window.latest(UP):
        states[point.labels.get("uuid", "")].append(point)
    risen: defaultdict[str, list[Series]] = defaultdict(list)
    gpus = {uuid: points[0].labels for uuid, points in states.items()}
    counters = window.latest(ERRORS)
    for point in counters:
        gpus.setdefault(point.labels.get("uuid", ""), point.labels)
    for series in window.series(ERRORS, BACK) if any(p.value for p in counters) else ():
        # Most counters never move, and there are hundreds of them.
        if len(series.values) and series.values[-1] != series.values[0] and _rose(series, limits):
            risen[series.labels.get("uuid", "")].append(series)
    for uuid, labels in gpus.items():
        down = [p for p in states[uuid] if not p.value and _was_up(window, p, states)]
        if down or risen[uuid]:
            yield _diagnosis(limits, labels, down, risen[uuid])
        else:
            yield Healthy(gpu(uuid))
    yield from _sxids.judged(window, limits)


def _was_up(window: Window, point: Point, states: dict[str, list[Point]]) -> bool:
    """Whether the link should be up: it was before, or the same link of most other GPUs is."""
    uuid, link = point.labels.get("uuid", ""), point.labels.get("link", "")
    if any(labels.get("mig_profile") for labels in window.seen(INFO, uuid=uuid)):
        return False
    before = window.series(UP, MEMORY, **point.labels)
    if any(series.values.any() for series in before):
        return True
    others = [
        p.value
        for other, points in states.items()
        if other != uuid
        for p in points
        if p.labels.get("link") == link
    ]
    return len(others) >= 2 and sum(others) > len(others) / 2


def _rose(series: Series, limits: Limits) -> bool:
    recent = _recent(series, limits)
    if recent is None:
        return False
    steps = np.diff(recent.values)
    if series.labels.get("kind") == "recovery":
        return bool(steps.sum() >= limits["recoveries"])
    return bool((steps > 0.0).sum() >= OFTEN and steps.sum() >= limits["errors"])


def _recent(series: Series, limits: Limits) -> Series | None:
    if len(series.times) < 2:
        return None
    spacing = float(np.median(np.diff(series.times)))
    since = series.times[-1] - max(limits["recent"], SPACINGS * spacing)
    first = int(np.searchsorted(series.times, since))
    return Series(series.labels, series.times[first:], series.values[first:])


def _diagnosis(
    limits: Limits, labels: dict[str, str], down: list[Point], risen: list[Series]
) -> Diagnosis:
    said, facts, since, worst = [], [], [], 0.0
    if down:
        links = ", ".join(sorted((p.labels.get("link", "?") for p in down), key=_number))
        said.append(f"NVLink {links} is down" if len(down) == 1 else f"NVLinks {links} are down")
        facts += [Evidence(UP, 0.0, expected="1", labels=p.labels) for p in down]
    for series in risen:
        recent = _recent(series, limits) or series
        grew = float(recent.values[-1] - recent.values[0])
        seconds = float(recent.times[-1] - recent.times[0])
        said.append(_words(series.labels, grew, seconds))
        facts.append(Evidence(ERRORS, grew, expected="no increase", labels=series.labels))
        since.append(float(recent.times[int((np.diff(recent.values) > 0.0).argmax()) + 1]))
        if series.labels.get("kind") == "crc":
            worst = max(worst, grew / seconds)
    return Diagnosis(
        subject=gpu(labels["uuid"]),
        cause="nvlink-errors",
        confidence=0.9 if down else 0.85,
        summary=f"{title(labels)}: {'; '.join(said)}.",
        evidence=tuple(facts),
        actions=_ACTIONS,
        severity="critical" if down or worst >= limits["crc_rate"] else None,
        since=min(since, default=None),
    )


def _words(labels: dict[str, str], grew: float, seconds: float) -> str:
    kind = labels.get("kind", "")
    errors = f"1 {kind} error" if grew == 1 else f"{grew:.0f} {kind} errors"
    # Some exporters count the links of a GPU together.
    which = f"link {labels['link']}" if labels.get("link") else "its NVLinks"
    return f"{which} counted {errors} in {seconds / 60:.0f} min"


def _number(text: str) -> int:
    return int(text) if text.isdigit() else 0


_ACTIONS = (
    Suggestion("notify", "Compare `nvidia-smi nvlink -s` and `-e` with its peers; read `dmesg`."),
    Suggestion("drain", "Move the work off, reset the GPU; if it returns, reseat or replace it."),
)

RULE = Rule(
    check=check,
    reads=frozenset({UP, ERRORS, INFO}),
    hold=10.0,
    clear=300.0,
    events=frozenset({"kmsg"}),
    thresholds={
        **_sxids.THRESHOLDS,
        "recent": Threshold(300.0, "seconds", "what an error older than that did is over"),
        "recoveries": Threshold(1.0, "count", "DCGM's health check warns at the first"),
        "errors": Threshold(5.0, "count", "single replays and CRC errors are corrected in passing"),
        "crc_rate": Threshold(100.0, "count per second", "DCGM's health check fails there"),
    },
)
