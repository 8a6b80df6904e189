"""Each kind of panel is drawn from its JSON and made-up answers, and a change of them is seen."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from gpudiag.dashboards import registry
from tests.dashboards.boards import BOARDS, NAMES, panels
from tests.pictures import paper, states, tables, words
from tests.pictures.answers import Asker, Line
from tests.pictures.index import index
from tests.pictures.picture import draw_panel
from tests.pictures.shown import PICTURES
from tests.prometheus import RunningPrometheus

FOLDER = paper.FOLDER
KINDS = {
    "timeseries": (registry.NODE, "Temperature"),
    "state-timeline": (registry.NODE, "Findings"),
    "stat": (registry.NODE, "GPUs missing"),
    "table": (registry.FLEET, "Versions"),
    "bargauge": (registry.FLEET, "Least busy"),
}


def panel_of(kind):
    uid, title = KINDS[kind]
    return next(p for p in panels(BOARDS[NAMES.index(uid)]) if p["title"] == title)


def pixels(tmp_path, panel, lines):
    asker = Asker(RunningPrometheus(tmp_path), 0.0, 600.0, {})
    sheet = paper.sheet(260)
    draw_panel(sheet, sheet.frame(paper.Box(4, 4, 600, 250), "Any"), panel, lines, asker, [])
    canvas = FigureCanvasAgg(sheet.figure)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba()).copy()


def line(value, **labels):
    return Line("A", "{{node}} {{gpu}}", labels, (0.0, 300.0, 595.0), (1.0, 1.0, value))


@pytest.mark.parametrize("kind", KINDS)
def test_a_panel_shows_its_answer(tmp_path, kind):
    panel = panel_of(kind)
    one = pixels(tmp_path, panel, [line(1.0, node="n1", driver="570")])
    assert (one != pixels(tmp_path, panel, [line(3.0, node="n1", driver="570")])).any()
    assert (one != pixels(tmp_path, panel, [line(1.0, node="n2", driver="571")])).any()


def test_lines_of_a_sheet_are_filled_and_nothing_overlaps():
    boxes, bottom = paper.flow([(16, 6), (4, 4), (24, 7), (8, 7)], 10)
    assert [round(box.x + box.w + paper.GAP / 2) for box in boxes] == [1056, 1320, 1320, 1320]
    assert [box.y for box in boxes] == [10, 10, 10 + 6 * paper.UNIT, 10 + 13 * paper.UNIT]
    assert bottom == 10 + 20 * paper.UNIT


def test_a_text_without_room_keeps_both_ends():
    text = paper.fitted("gpudiag_torch_allocated_bytes rank 7", 8, 100)
    assert paper.wide(text, 8) <= 100
    assert text.startswith("gpudiag")
    assert text.endswith("rank 7")


@pytest.mark.parametrize(
    ("number", "unit", "text"),
    [
        (0.253, "percentunit", "25.3%"), (8 * 2**30, "bytes", "8 GiB"), (2048.0, "Bps", "2 KiB/s"),
        (0.0905, "s", "90.5 ms"), (7200.0, "s", "2 h"), (1.98e9, "hertz", "1.98 GHz"),
        (52000.0, "short", "52 k"), (88.0, "celsius", "88 °C"), (0.0, "s", "0 s"),
    ],
)  # fmt: skip
def test_values_are_read_in_their_unit(number, unit, text):
    assert words.value(number, unit) == text


def test_a_state_is_one_stretch_until_it_changes_or_is_gone():
    times = (0.0, 10.0, 20.0, 30.0, 80.0)
    seen = Line("A", "", {}, times, (1.0, 1.0, 2.0, 2.0, 2.0))
    assert states.stretches(seen, 10.0) == [(0, 20, 1), (20, 40, 2), (80, 90, 2)]


def test_a_table_has_the_worst_first():
    rows = [line(1.0, driver="570"), line(5.0, driver="550")]
    columns, cells = tables.cells(panel_of("table"), rows)
    assert columns == ["driver", "CUDA", "model", "nodes"]
    assert [cell["driver"] for cell in cells] == ["550", "570"]


def test_every_dashboard_is_shown_in_a_light_picture():
    assert {picture.uid for picture in PICTURES.values()} == set(registry.UIDS)
    for name in ("page", *PICTURES):
        assert 5_000 < (FOLDER / f"{name}.png").stat().st_size < 150_000


def test_the_page_of_the_pictures_is_the_one_that_would_be_written():
    assert (FOLDER / "README.md").read_text() == index(), "renew it: make pictures"
