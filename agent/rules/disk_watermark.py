"""A disk is nearly full, or will be soon: checkpoints and logs are about to fail."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from gpudiag.agent.rules._lines import lines
from gpudiag.agent.rules._spans import held_since, steady_slope
from gpudiag.agent.rules.contract import (
    Diagnosis,
    Evidence,
    Healthy,
    Limits,
    Rule,
    Subject,
    Suggestion,
    Threshold,
    Verdict,
    subject,
)
from gpudiag.agent.window import Series, Window
from gpudiag.probes import Event
from gpudiag.probes.catalog import Severity

SIZE = "gpudiag_filesystem_size_bytes"
LEFT = "gpudiag_filesystem_available_bytes"
LOOK_BACK = 7200.0
GIB = 2.0**30
# Images and firmware partitions are written once and full by design; /dev/shm is not such a one.
_BY_DESIGN = re.compile(
    r"^/(?:boot|efi|snap|sys|proc|run|media|cdrom|dev(?!/shm)|var/lib/snapd|etc)(?:/|$)"
)
_NO_SPACE = "No space left on device"


@dataclass(frozen=True, slots=True)
class _Disk:
    """One file system: room left now and over time, and a write that it refused, if any."""

    labels: dict[str, str]
    size: float
    left: float
    series: Series
    refused: Event | None

    @property
    def share(self) -> float:
        return self.left / self.size


def check(window: Window, limits: Limits) -> Iterator[Verdict]:
    """Judge every file system that is large enough to hold somebody's work."""
    refused: list[Event] | None = None
    for point in window.latest(LEFT):
        size = window.value(SIZE, **_same(point.labels))
        mountpoint = point.labels.get("mountpoint", "")
        if not size or size < limits["smallest"] or _BY_DESIGN.match(mountpoint):
            continue
        if point.value / size >= limits["roomy"]:
            yield Healthy(_who(point.labels))
            continue
        series = window.series(LEFT, LOOK_BACK, **point.labels)[0]
        if _image(series, size, limits):
            continue
        if point.value / size < limits["low"] and refused is None:
            refused = list(lines(window, limits["recent"], _NO_SPACE))
        about = _about(refused, mountpoint)
        yield _judge(window, limits, _Disk(point.labels, size, point.value, series, about))


def _same(labels: dict[str, str]) -> dict[str, str]:
    return {key: labels[key] for key in ("mountpoint", "node") if key in labels}


def _who(labels: dict[str, str]) -> Subject:
    return subject(**_same(labels))


def _image(series: Series, size: float, limits: Limits) -> bool:
    """Whether it is a small file system that never had room: a read-only image."""
    return size < limits["image"] and not series.values.any()


def _about(refused: list[Event] | None, mountpoint: str) -> Event | None:
    return next((e for e in refused or () if mountpoint != "/" and mountpoint in e.line), None)


def _judge(window: Window, limits: Limits, disk: _Disk) -> Verdict:
    full_in = _full_in(disk.series, limits)
    since = held_since(disk.series, disk.series.values < limits["low"] * disk.size)
    lasting = since is not None and window.now - since >= limits["lasting"]
    if not (lasting or disk.refused or full_in is not None):
        return Healthy(_who(disk.labels))
    left = f"{disk.left / GIB:,.1f} of {disk.size / GIB:,.0f} GiB left ({disk.share:.1%})"
    soon = f", full in {_span(full_in)} at the rate of now" if full_in is not None else ""
    expected = f"> {limits['low']:.0%} of {disk.size:.3g}"
    evidence = [Evidence(LEFT, disk.left, "bytes", expected, disk.labels)]
    if disk.refused:
        evidence.append(Evidence(disk.refused.source, disk.refused.line))
    return Diagnosis(
        _who(disk.labels),
        "disk-watermark",
        0.95 if lasting or disk.refused else 0.75,
        f"{disk.labels.get('mountpoint', 'A file system')} has {left}{soon}.",
        tuple(evidence),
        actions=_ACTIONS,
        severity=_severity(limits, disk, full_in),
        since=since if since is not None else window.now,
    )


def _severity(limits: Limits, disk: _Disk, full_in: float | None) -> Severity:
    if disk.refused or disk.share < limits["critical"]:
        return "critical"
    if full_in is not None:
        near = full_in < limits["urgent"] or disk.share < limits["filling"]
        return "warning" if near else "info"
    # Nine tenths full and standing still: worth a note, nobody needs to be woken.
    calm = disk.share >= limits["warning"] or disk.left >= limits["plenty"]
    return "info" if calm else "warning"


def _full_in(series: Series, limits: Limits) -> float | None:
    """Seconds until nothing is left, if it shrinks steadily and that is soon; else None."""
    # What was freed once, as by a pruned checkpoint, may well be freed again.
    freed = float(np.max(np.diff(series.values), initial=0.0))
    for seconds in (LOOK_BACK, 2.0 * limits["watched"]):
        first = int(np.searchsorted(series.times, series.times[-1] - seconds))
        times, values = series.times[first:], series.values[first:]
        if times[-1] - times[0] < limits["watched"] or values[-1] >= values[0]:
            continue
        slope = steady_slope(Series(series.labels, times, values))
        if slope < 0.0 and freed <= 0.2 * float(values[0] - values[-1]):
            left = -float(values[-1]) / slope
            return left if left < limits["soon"] else None
    return None


def _span(seconds: float) -> str:
    return f"{seconds / 3600.0:.1f} h" if seconds >= 5400.0 else f"{seconds / 60.0:.0f} min"


_ACTIONS = (
    Suggestion(
        "notify",
        "See what takes the room (`du -xh --max-depth=2 MOUNT | sort -h | tail`) and whether old"
        " checkpoints are pruned.",
    ),
    Suggestion(
        "degrade",
        "Keep fewer checkpoints or write them less often; move finished ones to object storage."
        " Never delete the newest one that is known to load.",
    ),
)

RULE = Rule(
    check=check,
    reads=frozenset({LEFT}),
    events=frozenset({"log"}),
    clear=120.0,
    thresholds={
        "low": Threshold(0.10, "ratio", "room left; the usual watermark of 90 % used"),
        "warning": Threshold(0.08, "ratio", "between this and low a steady disk is only noted"),
        "critical": Threshold(0.05, "ratio", "ext4 keeps 5 % for root: others are refused here"),
        "filling": Threshold(0.20, "ratio", "the kubernetes mixin's limit for a warning by trend"),
        "urgent": Threshold(1800.0, "seconds", "a warning however much room there is"),
        "roomy": Threshold(0.50, "ratio", "above this no rate is watched"),
        "plenty": Threshold(2.0**40, "bytes", "a share of a very large disk is room for days"),
        "soon": Threshold(4 * 3600.0, "seconds", "the kubernetes mixin's horizon for a page"),
        "watched": Threshold(600.0, "seconds", "one checkpoint's writing takes less than this"),
        "lasting": Threshold(30.0, "seconds", "a temporary file may come and go"),
        "smallest": Threshold(2.0**30, "bytes", "boot and firmware partitions are smaller"),
        "image": Threshold(64.0 * 2**30, "bytes", "a read-only image is seldom larger"),
        "recent": Threshold(600.0, "seconds", "how long a refused write speaks of the present"),
    },
)
