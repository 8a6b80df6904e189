"""A dashboard as one picture: its rows, or those that are named, with the panels that have data."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from tests.dashboards.boards import BOARDS, NAMES, Json, panels
from tests.pictures import paper, series, states, tables
from tests.pictures.answers import Asker, Line
from tests.prometheus import RunningPrometheus

_HEAD = 62


@dataclass(frozen=True)
class Picture:
    """`titles` are the panels to show, in order; `about` says which incident it is of.

    The stretch is the last `seconds` of the recording.
    """

    uid: str
    about: str
    titles: tuple[str, ...]
    seconds: float
    chosen: dict[str, str] = field(default_factory=dict)

    def draw(self, prometheus: RunningPrometheus, end: float, path: Path) -> None:
        """Write the picture; fails where a panel that it should show has no data."""
        board = BOARDS[NAMES.index(self.uid)]
        asker = Asker(prometheus, end - self.seconds, end, self.chosen)
        known = {panel["title"]: panel for panel in panels(board)}
        shown = [(known[title], asker.panel(known[title])) for title in self.titles]
        empty = [panel["title"] for panel, lines in shown if not lines]
        assert not empty, f"{self.uid}: no data for {empty}"
        sizes = [_size(panel, lines) for panel, lines in shown]
        boxes, end_of = paper.flow(sizes, _HEAD)
        sheet = paper.sheet(end_of + 4)
        marks = asker.marks(board)
        self._head(sheet, board, marks)
        for box, (panel, lines) in zip(boxes, shown, strict=True):
            draw_panel(sheet, sheet.frame(box, self._title(panel)), panel, lines, asker, marks)
        paper.save(sheet, path, board["title"])

    def _title(self, panel: Json) -> str:
        title: str = panel["title"]
        for name, value in self.chosen.items():
            title = title.replace(f"${name}", value)
        return title

    def _head(self, sheet: paper.Sheet, board: Json, marks: list[series.Mark]) -> None:
        sheet.text(12, 10, board["title"], size=13, weight="bold")
        sheet.text(12, 36, self.about, size=8.5, color=paper.FAINT)
        x = paper.WIDTH - 12.0
        for name, colour in reversed({name: colour for name, colour, _ in marks}.items()):
            sheet.text(x, 14, f"┆ {name}", size=8, color=paper.COLOURS[colour], ha="right")
            x -= 24 + paper.wide(name, 8)


def _size(panel: Json, lines: list[Line]) -> tuple[int, int]:
    """Width and height on the grid; a table takes no more lines than it has."""
    width, height = panel["gridPos"]["w"], panel["gridPos"]["h"]
    if panel["type"] == "table":
        height = min(height, tables.height(panel, lines))
    return width, height


def draw_panel(
    sheet: paper.Sheet,
    box: paper.Box,
    panel: Json,
    lines: list[Line],
    asker: Asker,
    marks: list[series.Mark],
) -> None:
    """Draw one panel of any kind into the room inside its frame."""
    match panel["type"]:
        case "timeseries":
            series.draw(sheet, box, panel, lines, asker, marks)
        case "state-timeline":
            states.draw(sheet, box, panel, lines, asker)
        case "table":
            tables.table(sheet, box, panel, lines)
        case "stat":
            tables.numbers(sheet, box, panel, lines)
        case "bargauge":
            tables.bars(sheet, box, panel, lines)
