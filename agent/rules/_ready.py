"""What a server says of its readiness, and what else is seen of it: loading, memory, probes."""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np

from gpudiag.agent.rules import _serving as serving
from gpudiag.agent.rules._serving import Server
from gpudiag.agent.rules._spans import held_since
from gpudiag.agent.window import Series, Window
from gpudiag.probes import Event

USED = "gpudiag_gpu_memory_used_bytes"
OOMS = "gpudiag_torch_ooms_total"
RETRIES = "gpudiag_torch_alloc_retries_total"
LOOK_BACK = 3600.0
SHORT = 180.0
SLIGHT = 0.08

LOADING = re.compile(
    r"[Ll]oading .{0,40}(?:shards?|weights|model|checkpoint)|[Cc]apturing .{0,20}graph"
    r"|[Dd]ownloading|[Cc]ompil|torch\.compile|warm(?:ing)?[ -]?up|Starting to load|init engine",
)
NOT_LOADED = re.compile(
    r"(?:failed|unable|cannot|could not|error).{0,40}load(?:ing)?\b.{0,60}"
    r"(?:model|weight|checkpoint)|(?:model|weights?|checkpoint).{0,60}"
    r"(?:not found|failed to load|does not exist)"
    r"|No such file.{0,80}(?:safetensors|config\.json|\.bin)"
    r"|OSError: .{0,80}(?:model|config\.json)",
    re.IGNORECASE,
)
LIVENESS = re.compile(r"(?:Liveness|Startup) probe failed|failed (?:liveness|startup) probe", re.I)


class Down(NamedTuple):
    """A gauge that stands at 0: since when, and whether it was ever seen at 1."""

    since: float
    seconds: float
    was_up: bool


def down(window: Window, metric: str, server: Server) -> Down | None:
    """How long a 0/1 gauge has been 0; None where it is not, or nobody says."""
    if serving.value(window, metric, server) != 0.0:
        return None
    series = serving.history(window, metric, server, LOOK_BACK)
    if series is None:
        return None
    since = held_since(series, series.values == 0.0)
    if since is None:
        return None
    since = max(since, serving.unbroken(series))
    return Down(since, float(series.times[-1]) - since, bool((series.values > 0.0).any()))


def flaps(window: Window, metric: str, server: Server, seconds: float) -> int:
    """How often a 0/1 gauge fell in the last `seconds`."""
    series = serving.history(window, metric, server, seconds)
    return int((np.diff(series.values) < 0.0).sum()) if series is not None else 0


def loads_still(window: Window, server: Server, *, alone: bool) -> bool:
    """Whether it is seen to go on loading: its log says so, or its GPU fills."""
    lines = serving.said(window, SHORT, server, alone=alone)
    if any(LOADING.search(e.line) and not NOT_LOADED.search(e.line) for e in lines):
        return True
    return any(_rises(series) for series in window.series(USED, SHORT)) if alone else False


def _rises(series: Series) -> bool:
    return len(series.values) > 1 and float(series.values[-1] - series.values[0]) > 0.01 * float(
        series.values[-1]
    )


def load_error(window: Window, server: Server, *, alone: bool) -> str:
    """The newest line by which loading failed, or nothing."""
    lines = serving.said(window, LOOK_BACK, server, alone=alone)
    return next((e.line for e in reversed(lines) if NOT_LOADED.search(e.line)), "")


class Swing(NamedTuple):
    """Memory that does not settle: by how much of its level, what of, and how often it fell."""

    ratio: float
    metric: str
    level: float
    falls: int = 0


def swing(window: Window, server: Server, seconds: float, *, alone: bool) -> Swing | None:
    """How far the device's memory moved up and down, or that allocations fail; None where calm."""
    for metric in (OOMS, RETRIES):
        rose = sum(p.value for p in window.increase(metric, seconds, job=server.name))
        if server.name and rose > 0.0:
            return Swing(1.0, metric, rose)
    found = None
    for series in window.series(USED, seconds) if alone else []:
        if len(series.values) < 4:
            continue
        ratio = float(np.ptp(series.values)) / max(float(series.values.max()), 1.0)
        if found is None or ratio > found.ratio:
            falls = np.diff(series.values) < -SLIGHT * float(series.values.max())
            found = Swing(ratio, USED, float(series.values[-1]), int(falls.sum()))
    return found


def moves(window: Window, server: Server, start: float, end: float) -> bool | None:
    """Whether any work was done between two moments; None where none is counted."""
    seen = None
    for metric in (serving.STEPS, serving.GENERATED, serving.PROMPTED, serving.FINISHED):
        match = {"outcome": "ok"} if metric == serving.FINISHED else {}
        series = serving.history(window, metric, server, window.now - start + SHORT, **match)
        rate = serving.rate(series, start, end)
        if rate:
            return True
        seen = False if rate is not None else seen
    return seen


def probes_failed(window: Window, server: Server, seconds: float, *, alone: bool) -> list[Event]:
    """Liveness probes that failed, as Kubernetes tells it, of this server."""
    return [
        event
        for event in window.events(seconds, source="kubernetes")
        if LIVENESS.search(event.line) and (alone or (server.name and server.name in event.line))
    ]
