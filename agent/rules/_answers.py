"""What is known of a server's answers: its canary, its numbers, its weights, who else is asked."""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np

from gpudiag.agent.rules import _serving
from gpudiag.agent.rules._serving import Server
from gpudiag.agent.rules._spans import held_since
from gpudiag.agent.rules.contract import Limits
from gpudiag.agent.window import Series, Window
from gpudiag.probes import Event

SIMILAR = "gpudiag_canary_similarity_ratio"
NONFINITE = "gpudiag_serving_nonfinite_total"
LOOK_BACK = 7200.0
NOISES = 4.0
PLAIN = frozenset(
    {"", "none", "no", "off", "null", "bf16", "fp16", "fp32", "bfloat16", "float16", "float32"}
)
NUMBERS = re.compile(
    r"\bnans?\b.{0,40}\b(?:logit|output|probab)|\blogi?t?prob?s?\b.{0,40}\bnan\b|\blogits?\b.{0,40}"
    r"\b(?:nan|inf)\b|!{6,}|non-?finite|contains either `?inf`?|JSON compliant: nan|(?:same|repeat"
    r"ed) token.{0,30}(?:repeat|times|over)|repetition detected",
    re.IGNORECASE,
)
WEIGHTS = re.compile(
    r"missing key|not initialized from (?:the model )?checkpoint|newly initialized|(?:sha256|digest"
    r"|checksum)\b.{0,80}(?:mismatch|differ|wrong)|(?:tensors?|shards?|weights?)\b.{0,60}(?:missing"
    r"|not found|absent)|missing (?:tensors?|shards?|weights?)|size mismatch for|differs? from (?:"
    r"the |its )?manifest|(?:incomplete|broken|truncated) (?:metadata|download|file|checkpoint)",
    re.IGNORECASE,
)


class Canary(NamedTuple):
    """How the canary of one server stands: bad since when, and whether it was well before."""

    since: float
    now: float
    usual: float | None
    metric: str


def canary(window: Window, limits: Limits, server: Server) -> Canary | None:
    """A likeness that fell below its own past, or a canary that fails; None while it is well."""
    now = _serving.value(window, SIMILAR, server)
    if now is not None:
        series = _serving.history(window, SIMILAR, server, LOOK_BACK)
        return None if series is None or now >= limits["alike"] else _fell(series, limits)
    if _serving.value(window, _serving.CANARY, server) != 0.0:
        return None
    series = _serving.history(window, _serving.CANARY, server, LOOK_BACK)
    since = held_since(series, series.values == 0.0) if series is not None else None
    if series is None or since is None or float(series.times[-1]) - since < limits["lasting"]:
        return None
    usual = 1.0 if since > series.times[0] else None
    return Canary(since, 0.0, usual, _serving.CANARY)


def _fell(series: Series, limits: Limits) -> Canary | None:
    """Since when the likeness has been outside of what it was, or below any use."""
    values = series.values
    best = float(np.quantile(values, 0.9))
    past = values[values >= best - 0.02]
    # Its own noise, from one reading to the next: a measure of likeness may be a rough one.
    noise = float(np.median(np.abs(np.diff(values)))) if len(values) > 2 else 0.0
    floor = max(best - max(limits["fell"], NOISES * noise), limits["useless"])
    if values[-1] >= floor and not best < limits["useless"]:
        return None
    since = held_since(series, values < floor) or float(series.times[0])
    if float(series.times[-1]) - since < limits["lasting"] or (values < floor).sum() < 2:
        return None
    before = series.times < since
    usual = float(np.median(values[before])) if before.any() and len(past) else None
    return Canary(since, float(values[-1]), usual, SIMILAR)


def nonfinite(window: Window, limits: Limits, server: Server) -> float:
    """How many outputs lately held values that are not finite; 0 for a single one."""
    if not _serving.value(window, NONFINITE, server):
        return 0.0
    series = _serving.history(window, NONFINITE, server, limits["remember"])
    rose = float(series.values[-1] - series.values[0]) if series is not None else 0.0
    return rose if rose >= limits["nonfinite"] else 0.0


def lines(window: Window, server: Server, seconds: float, *, alone: bool) -> list[Event]:
    """What was said of its weights or its numbers, oldest first."""
    told = _serving.said(window, seconds, server, alone=alone)
    agent = [e for e in window.events(seconds, source="agent") if alone or server.name in e.line]
    both = [*told, *agent]
    return [e for e in both if _serving.holds(WEIGHTS, e.line) or _serving.holds(NUMBERS, e.line)]


def only_a_head(lines: list[Event]) -> bool:
    """A new head on old weights is what fine-tuning does."""
    return all("newly initialized" in e.line for e in lines)


def quantized(window: Window, server: Server) -> str:
    """How its copy is quantised; empty where it is not, or nobody says."""
    match = {"server": server.name} if server.name else {}
    for point in window.latest(_serving.CONFIG, **match):
        how = point.labels.get("quantization", "")
        if how.strip().lower() not in PLAIN:
            return how
    return ""


def asked(window: Window, server: Server) -> bool:
    """Whether a canary request is sent to it."""
    return any(_serving.value(window, m, server) is not None for m in (SIMILAR, _serving.CANARY))


def restarted(window: Window, server: Server, moment: float) -> bool:
    """Whether the server was started, or gone for a while, just before `moment`."""
    span = window.now - moment + 900.0
    if _reconfigured(window, server, moment):
        return True
    for event in window.events(span, source="process"):
        if event.line.startswith("start") and event.time <= moment + 60.0:
            return True
    for metric in (_serving.READY, _serving.UP):
        series = _serving.history(window, metric, server, span)
        if series is None or len(series.times) < 3:
            continue
        before = series.times <= moment
        if (series.values[before] == 0.0).any() or _serving.unbroken(series) > series.times[0]:
            return True
    return False


def _reconfigured(window: Window, server: Server, moment: float) -> bool:
    """Whether its configuration is younger than its canary: another copy was deployed."""
    config = _serving.history(window, _serving.CONFIG, server, LOOK_BACK)
    answers = _serving.history(window, SIMILAR, server, LOOK_BACK)
    if config is None or answers is None:
        return False
    younger = answers.times[0] + 30.0 < config.times[0] <= moment + 60.0
    return bool(younger)
