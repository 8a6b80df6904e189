"""States over time: one bar a series, its colour and word by the value's mapping."""

from __future__ import annotations

from collections.abc import Sequence

from tests.dashboards.boards import Json
from tests.pictures import words
from tests.pictures.answers import Asker, Line
from tests.pictures.paper import COLOURS, FAINT, INK, Box, Sheet, fitted, wide
from tests.pictures.series import time_axis

_ROWS = 9


def draw(sheet: Sheet, box: Box, panel: Json, lines: Sequence[Line], asker: Asker) -> None:
    """One panel of the kind `state-timeline`; the gravest states stand at the top."""
    mapping = panel["fieldConfig"]["defaults"]["mappings"][0]["options"]
    worst = sorted(lines, key=lambda line: -max(line.values))
    shown = worst[:_ROWS]
    full = [words.legend(line.pattern, line.labels) for line in shown]
    room = min(max(wide(name, 7) for name in full) + 12, box.w * 0.5)
    names = [fitted(name, 7, room - 10) for name in full]
    axes = sheet.axes(Box(box.x + room, box.y + 2, box.w - room - 8, box.h - 24))
    time_axis(axes, asker, box.w - room)
    axes.grid(visible=False)
    for row, (line, name) in enumerate(zip(shown, names, strict=True)):
        axes.text(
            -0.01, row, name, ha="right", va="center", size=7, color=INK,
            transform=axes.get_yaxis_transform(),
        )  # fmt: skip
        for start, end, value in stretches(line, asker.step):
            said = mapping.get(f"{value:g}", {"text": f"{value:g}", "color": "text"})
            axes.barh(row, end - start, left=start, height=0.72, color=COLOURS[said["color"]])
            if (end - start) / (asker.end - asker.start) * (box.w - room) > 6 * len(said["text"]):
                axes.text(
                    (start + end) / 2, row, said["text"], ha="center", va="center", size=6.5,
                    color="white",
                )  # fmt: skip
    axes.set_ylim(max(len(shown), 2) - 0.5, -0.5)
    axes.set_yticks([])
    if len(lines) > _ROWS:
        more = f"and {len(lines) - _ROWS} more"
        sheet.text(box.x, box.y + box.h, more, size=7, va="bottom", color=FAINT)


def stretches(line: Line, step: float) -> list[tuple[float, float, float]]:
    """Start, end and value of each stretch in which a series stayed as it was."""
    found: list[tuple[float, float, float]] = []
    for time, value in zip(line.times, line.values, strict=True):
        if found and found[-1][2] == value and time - found[-1][1] < 1.5 * step:
            found[-1] = (found[-1][0], time + step, value)
        else:
            found.append((time, time + step, value))
    return found
