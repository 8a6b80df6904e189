"""Each fault of the SDK, and what is made of it."""

import pytest

from gpudiag.dashboards import quirks
from gpudiag.dashboards.panels import NO_LIMIT, Query, Text, graph


def panel(title, width=8):
    return graph(Text(title, "What it is.", "short", NO_LIMIT), Query("up", "{{job}}"), width=width)


def built(*rows):
    board = quirks.builders.Dashboard("any").link(quirks.builders.DashboardLink("elsewhere"))
    for title, collapsed, panels in rows:
        quirks.add_row(board, title, panels, collapsed=collapsed)
    return quirks.finished(board.build())


def test_a_collapsed_row_holds_its_panels_and_an_open_one_stands_before_them():
    plain = built(("open", False, [panel("a")]), ("closed", True, [panel("b")]))
    opened, a, closed = plain["panels"]
    assert (opened["collapsed"], opened["panels"], a["title"]) == (False, [], "a")
    assert (closed["collapsed"], [p["title"] for p in closed["panels"]]) == (True, ["b"])


def test_panels_flow_and_wrap():
    plain = built(("row", False, [panel("a", 16), panel("b", 12), panel("c", 12)]))
    places = [(p["gridPos"]["x"], p["gridPos"]["y"]) for p in plain["panels"]]
    assert places == [(0, 0), (0, 1), (0, 8), (12, 8)]


def test_ids_reach_into_collapsed_rows():
    plain = built(("open", False, [panel("a")]), ("closed", True, [panel("b")]))
    assert [p["id"] for p in quirks.every_panel(plain["panels"])] == [1, 2, 3, 4]


def test_targets_are_lettered_legends_shown_and_links_not_put_into_a_menu():
    plain = built(("row", False, [panel("a")]))
    one = plain["panels"][1]
    assert [target["refId"] for target in one["targets"]] == ["A"]
    assert one["options"]["legend"]["showLegend"]
    assert "placement" not in plain["links"][0]


@pytest.mark.parametrize("name", ["cluster", "gpu"])
def test_a_variable_has_nothing_of_an_intervals(name):
    board = quirks.builders.Dashboard("any").with_variable(quirks.builders.QueryVariable(name))
    board.with_panel(panel("a"))
    (variable,) = quirks.finished(board.build())["templating"]["list"]
    assert not {"auto", "auto_count", "auto_min"} & variable.keys()
