"""Which servers there are, and what each of them counts: shared by the rules on serving."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from gpudiag.agent.rules._spans import Floats
from gpudiag.agent.rules.contract import Subject, subject
from gpudiag.agent.window import Series, Window
from gpudiag.agent.window.events import MAX_EVENTS
from gpudiag.probes import Event

UP = "gpudiag_serving_up"
READY = "gpudiag_serving_ready"
LOADED = "gpudiag_serving_model_loaded"
RUNNING = "gpudiag_serving_requests_running"
WAITING = "gpudiag_serving_requests_waiting"
UNANSWERED = "gpudiag_serving_requests_unanswered"
KV = "gpudiag_serving_kv_cache_usage_ratio"
BATCH = "gpudiag_serving_batch_limit"
STEPS = "gpudiag_serving_engine_steps_total"
GENERATED = "gpudiag_serving_generation_tokens_total"
PROMPTED = "gpudiag_serving_prompt_tokens_total"
FINISHED = "gpudiag_serving_requests_total"
PREEMPTED = "gpudiag_serving_preemptions_total"
CONFIG = "gpudiag_serving_config_info"
CANARY = "gpudiag_canary_ok"
CANARY_INFO = "gpudiag_canary_info"
CANARY_SECONDS = "gpudiag_canary_seconds"

GAP_SECONDS = 15.0
GAP_SPACINGS = 5.0

SIGNS_OF_LIFE = (RUNNING, WAITING, UNANSWERED, UP, READY)


class Server(NamedTuple):
    """One server, or one engine of it where it has several; empty names are not given."""

    name: str
    engine: str = ""

    @property
    def who(self) -> Subject:
        """The server as a finding's subject: engines of one server are told in words."""
        return _subject(self.name)

    @property
    def title(self) -> str:
        """`Server chat`, `Engine 1 of server chat`."""
        whole = f"server {self.name}" if self.name else "the server"
        return f"Engine {self.engine} of {whole}" if self.engine else whole[0].upper() + whole[1:]


@lru_cache(maxsize=1024)
def _subject(name: str) -> Subject:
    return subject(server=name) if name else ()


def servers(window: Window, metrics: Iterable[str] = SIGNS_OF_LIFE) -> list[Server]:
    """Every server of which one of `metrics` is fresh."""
    names = {p.labels.get("server", "") for metric in metrics for p in window.latest(metric)}
    return [Server(name) for name in sorted(names)]


def encodes(window: Window, server: Server) -> bool:
    """Whether it is known for one that writes no tokens: its canary is given no text."""
    asked = window.latest(CANARY_INFO, **_match(server))
    return bool(asked) and all(point.labels.get("gives") != "text" for point in asked)


def engines(window: Window, server: Server) -> list[Server]:
    """The engines of a server where it tells of several, else the server itself."""
    points = [p for m in (RUNNING, WAITING) for p in window.latest(m, **_match(server))]
    names = {p.labels.get("engine", "") for p in points}
    return [Server(server.name, name) for name in sorted(names)] if len(names) > 1 else [server]


def _match(server: Server) -> dict[str, str]:
    return {"server": server.name} if server.name else {}


def value(window: Window, metric: str, server: Server, **match: str) -> float | None:
    """The newest value, summed over what matches; None where nothing fresh does."""
    points = window.latest(metric, **_match(server), **match)
    if server.engine:
        points = [p for p in points if p.labels.get("engine") == server.engine] or points
    return sum(p.value for p in points) if points else None


def history(
    window: Window, metric: str, server: Server, seconds: float, **match: str
) -> Series | None:
    """The last `seconds`, summed over what matches; an engine's own before its server's."""
    return summed(_own(window.series(metric, seconds, **_match(server), **match), server))


def trend(
    window: Window, metric: str, server: Server, seconds: float, **match: str
) -> Series | None:
    """One-minute means (counters: last readings) of the last `seconds`, summed likewise."""
    stat = "last" if metric.endswith(("_total", "_bucket", "_sum", "_count")) else "mean"
    found = window.minutes(metric, seconds, stat, **_match(server), **match)  # type: ignore[arg-type]
    return summed(_own(found, server))


def _own(found: list[Series], server: Server) -> list[Series]:
    if not server.engine:
        return found
    return [s for s in found if s.labels.get("engine") == server.engine] or found


def summed(found: list[Series]) -> Series | None:
    """Several series as one; None where there is nothing in them."""
    found = [s for s in found if len(s.times)]
    if len(found) < 2:
        return found[0] if found else None
    times = found[0].times
    if any(len(s.times) != len(times) or (s.times != times).any() for s in found[1:]):
        times = np.unique(np.concatenate([s.times for s in found]))
    total = np.zeros(len(times))
    for one in found:
        total += np.interp(times, one.times, one.values)
    return Series(found[0].labels, times, total)


def rate(series: Series | None, start: float, end: float) -> float | None:
    """Rise a second of a counter between two moments; None where it was not read long enough."""
    if series is None or len(series.times) < 2:
        return None
    start, end = max(start, float(series.times[0])), min(end, float(series.times[-1]))
    if end <= start:
        return None
    rose: Floats = np.interp([start, end], series.times, series.values)
    return float(rose[1] - rose[0]) / (end - start)


def last_rise(series: Series) -> float | None:
    """When a counter rose for the last time; None where it never did."""
    rises = np.flatnonzero(np.diff(series.values) > 0.0)
    return float(series.times[rises[-1] + 1]) if len(rises) else None


@lru_cache(maxsize=4 * MAX_EVENTS)
def holds(pattern: re.Pattern[str], line: str) -> bool:
    """Whether a line holds a pattern; each line of a talkative log is searched once."""
    return pattern.search(line) is not None


def unbroken(series: Series) -> float:
    """Since when it was read without a gap of several times its own spacing."""
    gaps = np.diff(series.times)
    if not len(gaps):
        return float(series.times[0])
    wide = np.flatnonzero(gaps > max(GAP_SECONDS, GAP_SPACINGS * float(np.median(gaps))))
    return float(series.times[wide[-1] + 1 if len(wide) else 0])


def said(window: Window, seconds: float, server: Server, *, alone: bool) -> list[Event]:
    """Log, process and probe events of a server, oldest first.

    A log is a server's when its name or a field says so; where it is `alone`, any log that is not
    a rank's may be its own.
    """
    events = []
    for event in window.events(seconds):
        kind, _, name = event.source.partition(":")
        if kind not in ("log", "serving", "process"):
            continue
        whose = event.fields.get("server", name)
        if (server.name and server.name in whose) or (alone and not _RANKS.match(name)):
            events.append(event)
    return events


_RANKS = re.compile(r"(?:train|rank[-_ ]?\d*|\d+)$")
