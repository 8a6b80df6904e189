"""Lines over time with their limits, annotations and legend."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import pairwise

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter

from tests.dashboards.boards import Json
from tests.pictures import words
from tests.pictures.answers import Asker, Line
from tests.pictures.paper import COLOURS, FAINT, INK, LINES, Box, Sheet, fitted, wide

Mark = tuple[str, str, float]
"""Name, colour and time of an event."""

_SIZE = 7
_STROKE, _SPACE = 16, 12
_LEGEND_LINE = 14


def draw(
    sheet: Sheet,
    box: Box,
    panel: Json,
    lines: Sequence[Line],
    asker: Asker,
    marks: Sequence[Mark],
) -> None:
    """One panel of the kind `timeseries`, with the events of the board."""
    shown = _by_need(lines)
    names = [fitted(words.legend(line.pattern, line.labels), _SIZE, box.w / 2) for line in shown]
    rows = _legend_rows(names, box.w)
    axes = sheet.axes(Box(box.x + 52, box.y + 4, box.w - 58, box.h - 26 - _LEGEND_LINE * len(rows)))
    unit = panel["fieldConfig"]["defaults"]["unit"]
    time_axis(axes, asker, box.w - 58)
    _plot(axes, panel, shown)
    _limits(axes, panel)
    for _, colour, time in marks:
        axes.axvline(time, color=COLOURS[colour], linewidth=0.9, linestyle=(0, (2, 2)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: words.value(y, unit)))
    axes.set_yticks(_ticks(*axes.get_ylim(), unit))
    _legend(sheet, box, names, rows, hidden=len(lines) - sum(map(len, rows)))


def time_axis(axes: Axes, asker: Asker, width: float) -> None:
    """The stretch that was asked for, in minutes of the day (UTC)."""
    axes.set_xlim(asker.start, asker.end)
    span = asker.end - asker.start
    step = next(s for s in (60, 120, 300, 600, 900, 1800, 3600) if span / s <= min(6, width / 50))
    ticks = np.arange(np.ceil(asker.start / step) * step, asker.end + 1, step)
    axes.set_xticks(ticks)
    axes.set_xticklabels([datetime.fromtimestamp(t, UTC).strftime("%H:%M") for t in ticks])
    axes.tick_params(length=2, labelsize=7)
    axes.grid(visible=True, color="#e6e8eb", linewidth=0.6)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


_ROUND: dict[str, list[float]] = {
    "s": [1, 2, 5, 15, 30, 60, 120, 300, 900, 1800, 3600, 7200, 21600, 86400, 172800],
    "bytes": [2.0**power for power in range(10, 50)],
    "Bps": [2.0**power for power in range(4, 50)],
}


def _ticks(bottom: float, top: float, unit: str) -> list[float]:
    """Round values of the unit between two ends: of bytes in powers of two, of time in minutes."""
    span = top - bottom
    step = next((step for step in _ROUND.get(unit, ()) if 2 < span / step <= 5), 0.0)
    if not step:
        size = 10 ** np.floor(np.log10(span / 4))
        step = size * next(part for part in (1, 2, 2.5, 5, 10) if span / (part * size) <= 5)
    first = np.ceil(bottom / step - 1e-9) * step
    return [float(tick) + 0.0 for tick in np.arange(first, top + step * 1e-9, step)]


def _by_need(lines: Sequence[Line]) -> list[Line]:
    """Those that stand out first: of many series the usual ones can be left out of a legend."""
    if len(lines) <= len(LINES):
        return list(lines)
    middle = float(np.median([line.values[-1] for line in lines]))
    return sorted(lines, key=lambda line: -abs(line.values[-1] - middle))


def _plot(axes: Axes, panel: Json, lines: Sequence[Line]) -> None:
    custom = panel["fieldConfig"]["defaults"]["custom"]
    if custom.get("stacking", {}).get("mode") == "normal":
        times = sorted({time for line in lines for time in line.times})
        values = [np.interp(times, line.times, line.values, 0, 0) for line in lines]
        axes.stackplot(times, values, colors=LINES[: len(lines)], alpha=0.75, linewidth=0)
    else:
        for at, line in reversed(list(enumerate(lines))):
            colour = LINES[at] if at < len(LINES) else "#b9bec5"
            axes.plot(line.times, line.values, color=colour, linewidth=1.3)
    least = panel["fieldConfig"]["defaults"].get("min")
    most = panel["fieldConfig"]["defaults"].get("max")
    bottom, top = axes.get_ylim()
    bottom = bottom if least is None else least
    room = max(0.04 * (top - bottom), 1e-9)
    axes.set_ylim(bottom, top + room if most is None else most * 1.02)


def _limits(axes: Axes, panel: Json) -> None:
    bottom, top = axes.get_ylim()
    steps = panel["fieldConfig"]["defaults"]["thresholds"]["steps"]
    for before, step in pairwise(steps):
        colour = COLOURS[step["color"] if step["color"] != "green" else before["color"]]
        if bottom < step["value"] < top and step["value"] > 1e-6:
            axes.axhline(step["value"], color=colour, linewidth=1, linestyle=(0, (5, 3)))


def _legend_rows(names: Sequence[str], width: float, most: int = 3) -> list[list[str]]:
    """Names in lines that are no wider than the panel; what has no room is left out."""
    rows: list[list[str]] = [[]]
    left = 0.0
    for name in names[: len(LINES)]:
        size = _STROKE + wide(name, _SIZE) + _SPACE
        if rows[-1] and left + size > width - (70 if len(rows) == most else 0):
            if len(rows) == most:
                break
            rows.append([])
            left = 0.0
        rows[-1].append(name)
        left += size
    return rows


def _legend(
    sheet: Sheet, box: Box, names: Sequence[str], rows: Sequence[Sequence[str]], hidden: int
) -> None:
    number = 0
    for line, row in enumerate(rows):
        x, y = box.x, box.y + box.h - _LEGEND_LINE * (len(rows) - line)
        for name in row:
            stroke = Line2D(
                [x / sheet.figure.bbox.width, (x + 12) / sheet.figure.bbox.width],
                [1 - (y + 6) / sheet.height] * 2,
                color=LINES[number],
                linewidth=2.5,
            )
            sheet.figure.add_artist(stroke)
            sheet.text(x + _STROKE, y + 6, name, size=_SIZE, va="center", color=INK)
            x += _STROKE + wide(name, _SIZE) + _SPACE
            number += 1
        if line == len(rows) - 1 and hidden:
            sheet.text(x + 4, y + 6, f"and {hidden} more", size=_SIZE, va="center", color=FAINT)
