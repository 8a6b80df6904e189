"""Tables, large numbers and bars: what is asked for one moment."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tests.dashboards.boards import Json
from tests.pictures import words
from tests.pictures.answers import Line
from tests.pictures.paper import (
    COLOURS,
    FAINT,
    GAP,
    INK,
    LINES,
    TITLE,
    UNIT,
    Box,
    Sheet,
    fitted,
    wide,
)

_ROW = 19
_SIZE = 7.5


def table(sheet: Sheet, box: Box, panel: Json, lines: Sequence[Line]) -> None:
    """Lines merged by their labels, columns named and ordered as the panel says."""
    columns, rows = cells(panel, lines)
    fits = int((box.h - _ROW) // _ROW)
    x = box.x
    for column, room in zip(columns, _rooms(columns, rows[:fits], box.w), strict=True):
        sheet.text(x, box.y + 2, column, size=7, color=FAINT)
        for number, row in enumerate(rows[:fits]):
            text = fitted(row[column], _SIZE, room - 8)
            sheet.text(x, box.y + _ROW * (number + 1), text, size=_SIZE, color=INK)
        x += room
    if len(rows) > fits:
        more = f"and {len(rows) - fits} more"
        sheet.text(box.x + box.w, box.y + box.h + 4, more, size=7, ha="right", va="bottom",
                   color=FAINT)  # fmt: skip


def height(panel: Json, lines: Sequence[Line]) -> int:
    """Units of the grid that all lines of the table take."""
    return math.ceil((TITLE + GAP + 8 + _ROW * (len(cells(panel, lines)[1]) + 1)) / UNIT)


def _rooms(columns: Sequence[str], rows: Sequence[dict[str, str]], width: float) -> list[float]:
    """The width of each column: what it needs and a share of the rest, or less of the widest."""
    needs = [max(wide(text, _SIZE) for text in (c, *(row[c] for row in rows))) for c in columns]
    spare = width - sum(needs)
    while spare < 14 * len(needs):
        widest = needs.index(max(needs))
        needs[widest] -= 4
        spare += 4
    return [need + spare / len(needs) for need in needs]


def cells(panel: Json, lines: Sequence[Line]) -> tuple[list[str], list[dict[str, str]]]:
    """The columns, and each line's texts by column, the worst first where the panel sorts."""
    steps = {step["id"]: step["options"] for step in panel["transformations"]}
    named = steps["organize"]["renameByName"]
    units = {
        one["matcher"]["options"]: one["properties"][0]["value"]
        for one in panel["fieldConfig"]["overrides"]
    }
    several = len(panel["targets"]) > 1
    merged: dict[tuple[str, ...], dict[str, float | str]] = {}
    for line in lines:
        texts = {name: line.labels.get(name, "") for name in named if not name.startswith("Value")}
        row = merged.setdefault(tuple(texts.values()), dict(texts))
        row[f"Value #{line.ref}" if several else "Value"] = line.values[-1]
    worst = panel["options"].get("sortBy") or []
    rows = list(merged.values())
    if worst:
        key = next(name for name, word in named.items() if word == worst[0]["displayName"])
        rows.sort(key=lambda row: -float(row.get(key, float("-inf"))))
    default = panel["fieldConfig"]["defaults"]["unit"]
    shown = [
        {word: _cell(row.get(name, ""), units.get(word, default)) for name, word in named.items()}
        for row in rows
    ]
    return list(named.values()), shown


def _cell(value: float | str, unit: str) -> str:
    return value if isinstance(value, str) else words.value(value, unit)


def numbers(sheet: Sheet, box: Box, panel: Json, lines: Sequence[Line]) -> None:
    """One panel of the kind `stat`: the last values in the colour of the limit they are past."""
    unit = panel["fieldConfig"]["defaults"]["unit"]
    steps = panel["fieldConfig"]["defaults"]["thresholds"]["steps"]
    fits = max(1, int(box.h // 62))
    for row, line in enumerate(lines[:fits]):
        past = [s for s in steps if s["value"] is None or line.values[-1] >= s["value"]]
        middle = box.y + box.h * (row + 0.5) / min(fits, len(lines))
        name = fitted(words.legend(line.pattern, line.labels), 7, box.w)
        sheet.text(
            box.x + box.w / 2, middle - 10, words.value(line.values[-1], unit), size=19,
            weight="bold", ha="center", va="center", color=COLOURS[past[-1]["color"]],
        )  # fmt: skip
        sheet.text(box.x + box.w / 2, middle + 18, name, size=7, ha="center", va="center",
                   color=FAINT)  # fmt: skip


def bars(sheet: Sheet, box: Box, panel: Json, lines: Sequence[Line]) -> None:
    """One panel of the kind `bargauge`: a bar a series, in the order of the answer."""
    unit = panel["fieldConfig"]["defaults"]["unit"]
    top = panel["fieldConfig"]["defaults"].get("max") or max(line.values[-1] for line in lines)
    shown = lines[: int(box.h // 20)]
    axes = sheet.axes(Box(box.x + 215, box.y, box.w - 265, box.h))
    for row, line in enumerate(shown):
        name = fitted(words.legend(line.pattern, line.labels), 7, 205)
        axes.barh(row, top, height=0.7, color="#eceef0")
        axes.barh(row, line.values[-1], height=0.7, color=LINES[0])
        how: dict[str, Any] = {"va": "center", "size": 7, "transform": axes.get_yaxis_transform()}
        axes.text(-0.01, row, name, ha="right", **how)
        axes.text(1.01, row, words.value(line.values[-1], unit), ha="left", **how)
    axes.set_xlim(0, top)
    axes.set_ylim(len(shown) - 0.5, -0.5)
    axes.axis("off")
