"""The sheet that panels are drawn on: a place for each, in pixels, and the colours."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.patches import Rectangle
from PIL import Image

FOLDER = Path(__file__).parents[2] / "runbooks" / "pictures"
DPI = 100
WIDTH, UNIT, GAP, TITLE = 1320, 31, 8, 26
COLOURS = {
    "green": "#3f9d4f", "red": "#d8343f", "orange": "#ef8a17", "yellow": "#d9a800",
    "blue": "#3274d9", "purple": "#8f3bb8", "text": "#6e7680",
}  # fmt: skip
LINES = ("#3274d9", "#ef843c", "#3f9d4f", "#b877d9", "#d8343f", "#1aa3a3", "#a88b00", "#7a6f6a")
INK, FAINT, PAPER = "#22252b", "#6e7680", "#f1f2f4"

mpl.rcParams.update({"font.family": "DejaVu Sans", "font.size": 8, "text.color": INK})
mpl.rcParams.update({"axes.edgecolor": "#c8ccd2", "xtick.color": FAINT, "ytick.color": FAINT})


_RULER = FigureCanvasAgg(Figure(dpi=DPI)).get_renderer()


def wide(text: str, size: float) -> float:
    """How many pixels a text of a size in points takes."""
    return float(_RULER.get_text_width_height_descent(text, FontProperties(size=size), False)[0])


def fitted(text: str, size: float, room: float) -> str:
    """Both ends of a text that has no room: the last characters tell series apart."""
    most = len(text)
    cut = text
    while wide(cut, size) > room and most > 4:
        most -= 1
        tail = (most - 1) // 2
        cut = f"{text[: most - 1 - tail]}…{text[-tail:]}"
    return cut


@dataclass(frozen=True)
class Box:
    """Left, top, width and height in pixels from the sheet's upper left corner."""

    x: float
    y: float
    w: float
    h: float


@dataclass(frozen=True)
class Sheet:
    """A figure whose places are counted in pixels from the top."""

    figure: Figure
    height: float

    def text(self, x: float, y: float, words: str, **how: Any) -> None:
        options: dict[str, Any] = {"va": "top", "ha": "left"} | how
        self.figure.text(x / WIDTH, 1 - y / self.height, words, **options)

    def axes(self, box: Box) -> Axes:
        place = (box.x / WIDTH, 1 - (box.y + box.h) / self.height)
        axes = self.figure.add_axes((*place, box.w / WIDTH, box.h / self.height))
        axes.set_facecolor("none")
        return axes

    def frame(self, box: Box, title: str) -> Box:
        """A panel's frame and title; returns the room inside."""
        size = (box.w / WIDTH, box.h / self.height)
        corner = (box.x / WIDTH, 1 - (box.y + box.h) / self.height)
        frame = Rectangle(corner, *size, facecolor="white", edgecolor="#d5d8dd", linewidth=0.8)
        # Below the axes, which stand at 0.
        frame.set_zorder(-1)
        self.figure.add_artist(frame)
        self.text(box.x + 10, box.y + 8, title, weight="bold", size=8.5)
        return Box(box.x + 10, box.y + TITLE, box.w - 20, box.h - TITLE - 6)


def sheet(height: float) -> Sheet:
    figure = Figure(figsize=(WIDTH / DPI, height / DPI), dpi=DPI, facecolor=PAPER)
    FigureCanvasAgg(figure)
    return Sheet(figure, height)


def flow(sizes: Iterable[tuple[int, int]], top: float) -> tuple[list[Box], float]:
    """Boxes for panels of a width and height in grid units, left to right, each line filled; and
    where they end.
    """
    lines: list[list[tuple[int, int]]] = [[]]
    for size in sizes:
        if sum(width for width, _ in lines[-1]) + size[0] > 24:
            lines.append([])
        lines[-1].append(size)
    boxes: list[Box] = []
    for line in lines:
        height = max(height for _, height in line) * UNIT
        stretch = WIDTH / sum(width for width, _ in line)
        left = 0.0
        for width, _ in line:
            boxes.append(Box(left + GAP / 2, top, width * stretch - GAP, height - GAP))
            left += width * stretch
        top += height
    return boxes, top


def save(sheet: Sheet, path: Path, title: str) -> None:
    """As a PNG, the same bytes for the same drawing."""
    sheet.figure.savefig(path, metadata={"Software": None, "Title": title})
    lighten(path)


def lighten(path: Path) -> None:
    """Make a PNG small: at most 256 colours, and nothing that says when it was made. One that is
    small already stays as it is.
    """
    with Image.open(path) as whole:
        if whole.mode == "P":
            return
        few = whole.convert("RGB").quantize(256, dither=Image.Dither.NONE)
    few.save(path, optimize=True)
