"""Whether a server's KV cache keeps what finished requests should have given back."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gpudiag.agent.rules import _serving as serving
from gpudiag.agent.rules._latency import LOOK_BACK, Spell, spell
from gpudiag.agent.rules._serving import Server
from gpudiag.agent.window import Series, Window

CAPACITY = "gpudiag_serving_kv_tokens_capacity"
AVAILABLE = "gpudiag_serving_kv_tokens_available"
SPAN = 300.0
FEW = 3


class Kept(NamedTuple):
    """Cache held, as a ratio, by requests that do not run: now and as usual with as many."""

    since: float
    held: float
    usual: float
    running: float
    words: str


def use(window: Window, server: Server) -> Series | None:
    """The share of the cache in use, from the ratio or from the tokens that are left."""
    ratio = serving.trend(window, serving.KV, server, LOOK_BACK)
    if ratio is not None:
        return ratio
    left = serving.trend(window, AVAILABLE, server, LOOK_BACK)
    whole = serving.trend(window, CAPACITY, server, LOOK_BACK)
    if left is None or whole is None:
        return None
    capacity = np.interp(left.times, whole.times, whole.values)
    return Series(left.labels, left.times, 1.0 - left.values / np.maximum(capacity, 1.0))


def kept(window: Window, server: Server, least: float) -> Kept | None:
    """What the cache holds beyond what as many requests held before; None where it does not."""
    now = serving.value(window, serving.KV, server)
    if now is not None and now < least:
        return None
    cache = use(window, server)
    running = serving.trend(window, serving.RUNNING, server, LOOK_BACK)
    if cache is None or running is None or cache.values[-1] < least:
        return None
    when = spell(cache.times, SPAN)
    if when is None:
        return None
    many = np.interp(cache.times, running.times, running.values)
    return _when_idle(cache, many, when, least) or _when_fewer(cache, many, when, least)


def _when_idle(cache: Series, many: np.ndarray, when: Spell, least: float) -> Kept | None:
    """Nothing runs, and the cache is not empty although it used to be by then."""
    now = cache.times >= when.since - 1.0
    if now.sum() < FEW or many[now].max() > 0.0:
        return None
    idle = ~now & (many == 0.0) & (cache.times <= when.last)
    usual = float(np.median(cache.values[idle])) if idle.any() else 0.0
    held = float(cache.values[now].min())
    if held < usual + least:
        return None
    words = f"nothing runs and the cache is {held:.0%} full"
    return Kept(when.since, held, usual, 0.0, words)


def _when_fewer(cache: Series, many: np.ndarray, when: Spell, least: float) -> Kept | None:
    """Far fewer run than before, and the cache is as full or fuller."""
    now, past = cache.times >= when.since - 1.0, cache.times <= when.last
    if now.sum() < FEW or past.sum() < FEW:
        return None
    usual_many, usual = float(many[past].mean()), float(cache.values[past].mean())
    few, held = float(many[now].mean()), float(cache.values[now].min())
    if few > 0.6 * usual_many or held < usual or held < 3.0 * least:
        return None
    # Where fewer ran before too, the cache must have been emptier then.
    like = ~now & (many <= 1.2 * few) & (cache.times <= when.last)
    if like.any() and held < float(np.quantile(cache.values[like], 0.9)) + least:
        return None
    words = f"{few:.0f} run where {usual_many:.0f} did, and the cache is {held:.0%} full"
    return Kept(when.since, held, usual * few / max(usual_many, 1e-9), few, words)
