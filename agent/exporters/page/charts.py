"""Small charts as SVG, drawn on the server, so that the page needs no library and no script."""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from itertools import pairwise

import numpy as np
from markupsafe import Markup

from gpudiag.agent.exporters.page.expected import Limits
from gpudiag.agent.exporters.view import Floats

_Height = Callable[[float], float]

WIDTH, HEIGHT = 300.0, 72.0
SPARK_WIDTH, SPARK_HEIGHT = 96.0, 22.0
_MOST_POINTS = 120
_GAP_SPACINGS = 5.0


def chart(
    times: Floats, values: Floats, *, limits: Limits | None, since: float, label: str
) -> Markup:
    """A line with its expected band (or limit) and a mark where the symptom began.

    `times` and `values` have shape (n,), n >= 2, ascending; `label` says in words what is drawn.
    """
    low, high = _span(values, limits)
    left, right = float(times[0]), float(times[-1])

    def height(value: float) -> float:
        return HEIGHT - 4.0 - (value - low) / (high - low) * (HEIGHT - 8.0)

    parts = [_band(limits, height)] if limits else []
    if left < since < right:
        x = (since - left) / (right - left) * WIDTH
        parts.append(f'<line class="since" x1="{x:.1f}" x2="{x:.1f}" y1="0" y2="{HEIGHT:.0f}"/>')
    parts.append(_line(*thinned(times, values), (left, right), WIDTH, height))
    parts.append(
        f'<circle class="now" cx="{WIDTH:.0f}" cy="{height(float(values[-1])):.1f}" r="3"/>'
    )
    return _svg("chart", WIDTH, HEIGHT, label, "".join(parts))


def spark(times: Floats, values: Floats, *, top: float, label: str) -> Markup:
    """A line without axes from 0 to `top`; empty for fewer than two points."""
    if len(times) < 2:
        return Markup("")

    def height(value: float) -> float:
        return SPARK_HEIGHT - 1.0 - min(value / top, 1.0) * (SPARK_HEIGHT - 2.0)

    span = (float(times[0]), float(times[-1]))
    line = _line(*thinned(times, values), span, SPARK_WIDTH, height)
    return _svg("spark", SPARK_WIDTH, SPARK_HEIGHT, label, line)


def bar(share: float, label: str) -> Markup:
    """A horizontal bar filled to `share` (0-1)."""
    width = max(0.0, min(share, 1.0)) * SPARK_WIDTH
    level = "full" if share >= 0.95 else "fill"
    body = (
        f'<rect class="rail" width="{SPARK_WIDTH:.0f}" height="8" rx="2"/>'
        f'<rect class="{level}" width="{width:.1f}" height="8" rx="2"/>'
    )
    return _svg("bar", SPARK_WIDTH, 8.0, label, body)


def thinned(times: Floats, values: Floats) -> tuple[Floats, Floats]:
    """At most 120 points that keep the lowest and highest of every stretch, so no spike is lost."""
    if len(times) <= _MOST_POINTS:
        return times, values
    edges = np.linspace(0, len(times), _MOST_POINTS // 2 + 1).astype(int)
    picked = set()
    for start, end in pairwise(edges.tolist()):
        picked.add(start + int(np.argmin(values[start:end])))
        picked.add(start + int(np.argmax(values[start:end])))
    rows = sorted(picked)
    return times[rows], values[rows]


def _span(values: Floats, limits: Limits | None) -> tuple[float, float]:
    marks = [float(values.min()), float(values.max())]
    marks += [mark for mark in limits or () if mark is not None]
    low, high = min(marks), max(marks)
    room = (high - low) * 0.08 or abs(high) * 0.1 or 1.0
    return low - room, high + room


def _band(limits: Limits, height: _Height) -> str:
    low, high = limits
    top = 0.0 if high is None else height(high)
    bottom = HEIGHT if low is None else height(low)
    edges = "".join(
        f'<line class="limit" x1="0" x2="{WIDTH:.0f}" y1="{y:.1f}" y2="{y:.1f}"/>'
        for y, mark in ((top, high), (bottom, low))
        if mark is not None
    )
    band = f'<rect class="band" y="{top:.1f}" width="{WIDTH:.0f}" height="{bottom - top:.1f}"/>'
    return band + edges


def _line(
    times: Floats, values: Floats, span: tuple[float, float], width: float, height: _Height
) -> str:
    """A path that is broken where samples are missing: absent is not drawn as steady."""
    steps = np.diff(times)
    gap = float(np.median(steps)) * _GAP_SPACINGS if len(steps) else 0.0
    scale = width / (span[1] - span[0])
    points = []
    for row, (time, value) in enumerate(zip(times.tolist(), values.tolist(), strict=True)):
        pen = "M" if row == 0 or steps[row - 1] > gap else "L"
        points.append(f"{pen}{(time - span[0]) * scale:.1f} {height(value):.1f}")
    return f'<path class="line" d="{"".join(points)}"/>'


def _svg(kind: str, width: float, height: float, label: str, body: str) -> Markup:
    # Every piece of `body` is made of numbers; the label alone comes from outside.
    return Markup(  # noqa: S704
        f'<svg class="{kind}" viewBox="0 0 {width:.0f} {height:.0f}" role="img" '
        f'aria-label="{escape(label)}"><title>{escape(label)}</title>{body}</svg>'
    )
