"""Whether a few requests keep an engine to themselves and come to no end."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gpudiag.agent.rules import _serving as serving
from gpudiag.agent.rules._serving import Server
from gpudiag.agent.rules._spans import held_since
from gpudiag.agent.window import Series, Window

LOOK_BACK = 3600.0
FEW = 2.0
LONE = 5.0


class Runaway(NamedTuple):
    """Requests without an end: since when, how many usually run, and their share of the cache.

    `pause` is the longest time without a finished request before that, in seconds.
    """

    since: float
    seconds: float
    usual: float
    pause: float
    kv: float | None


def found(
    window: Window, server: Server, now: dict[str, float], endless: float, pauses: float
) -> Runaway | None:
    """The requests that block all others, if any; a full batch is none, nor is an empty queue."""
    few, waiting = now.get(serving.RUNNING, 0.0), now.get(serving.WAITING, 0.0)
    if not 0.0 < few <= FEW or waiting <= 0.0:
        return None
    running = serving.history(window, serving.RUNNING, server, LOOK_BACK)
    queue = serving.history(window, serving.WAITING, server, LOOK_BACK)
    done = serving.history(window, serving.FINISHED, server, LOOK_BACK, outcome="ok")
    if running is None or queue is None or done is None:
        return None
    alone = held_since(running, (running.values > 0.0) & (running.values <= FEW))
    waits = held_since(queue, queue.values > 0.0)
    if alone is None or waits is None:
        return None
    since = max(alone, waits, serving.last_rise(done) or float(done.times[0]))
    before = running.values[running.times < since]
    usual = float(np.median(before)) if len(before) else few
    pause = _longest_pause(done, since)
    seconds = float(done.times[-1]) - since
    # Where one at a time is usual, an end may be rare: only its own past tells what is long.
    if seconds < max(endless if usual > FEW else LONE * endless, pauses * pause):
        return None
    return Runaway(since, seconds, usual, pause, serving.value(window, serving.KV, server))


def _longest_pause(done: Series, until: float) -> float:
    rises = done.times[1:][np.diff(done.values) > 0.0]
    rises = rises[rises <= until]
    return float(np.diff(rises).max()) if len(rises) > 1 else 0.0
