"""What holds for every dashboard and panel: dashboard-linter's rules, and some of our own."""

import json
import re

import promql_parser
import pytest
from grafana_foundation_sdk.cog.plugins import register_default_plugins

from gpudiag.agent import pages
from gpudiag.agent.rules import RULES
from gpudiag.dashboards import quirks, registry
from gpudiag.dashboards.files import files
from gpudiag.probes import catalog
from tests.dashboards.boards import (
    BOARDS,
    GENERATED,
    NAMES,
    metric_names,
    panels,
    questions,
    substituted,
)

EACH = pytest.mark.parametrize("board", BOARDS, ids=NAMES)
PANELS = pytest.mark.parametrize(
    "panel",
    [panel for board in BOARDS for panel in panels(board)],
    ids=[f"{name} {p['title']}" for name, b in zip(NAMES, BOARDS, strict=True) for p in panels(b)],
)
EXPRESSIONS = pytest.mark.parametrize(
    "expr", sorted({expr for board in BOARDS for _, expr, _ in questions(board)})
)


def test_the_committed_files_are_those_that_would_be_written():
    there = {path.name: path.read_text() for path in GENERATED.glob("*.json")}
    assert there == files(), "renew them: python -m gpudiag.dashboards"


@EACH
def test_the_sdk_reads_what_it_wrote(board):
    register_default_plugins()
    again = quirks.finished(quirks.models.Dashboard.from_json(json.loads(json.dumps(board))))
    assert again == board


@EACH
def test_panels_have_ids_of_their_own_and_their_targets_too(board):
    ids = [panel["id"] for panel in quirks.every_panel(board["panels"])]
    assert len(set(ids)) == len(ids)
    assert all(ids)
    for panel in panels(board):
        letters = [target["refId"] for target in panel["targets"]]
        assert letters
        assert len(set(letters)) == len(letters)


def cells(panel):
    place = panel["gridPos"]
    rows = range(place["y"], place["y"] + place["h"])
    return {(x, y) for y in rows for x in range(place["x"], place["x"] + place["w"])}


@EACH
def test_no_panel_lies_on_another_or_off_the_grid(board):
    for level in (board["panels"], *(panel.get("panels", []) for panel in board["panels"])):
        taken = [cells(panel) for panel in level]
        assert sum(map(len, taken)) == len(set().union(*taken))
        assert all(0 <= x < 24 for one in taken for x, _ in one)


@EACH
def test_open_rows_hold_nothing_and_collapsed_ones_do(board):
    for row in (panel for panel in board["panels"] if panel["type"] == "row"):
        assert bool(row["panels"]) == row["collapsed"]


@EACH
def test_a_dashboard_is_found_and_not_edited(board):
    assert board["uid"] in NAMES
    assert not board["editable"]
    assert "inControlsMenu" not in json.dumps(board)
    assert [link["includeVars"] and link["keepTime"] for link in board["links"]] == [True]


@EACH
def test_variables_are_as_the_linter_wants_them(board):
    source, *queried, runbooks = board["templating"]["list"]
    assert (source["name"], source["label"], source["query"]) == (
        "datasource",
        "Data Source",
        "prometheus",
    )
    assert runbooks["query"].startswith("http")
    for variable in queried:
        assert variable["datasource"]["uid"] == "${datasource}"
        assert variable["label"] == variable["name"]
        assert (variable["multi"], variable["includeAll"], variable["refresh"]) == (True, True, 2)


@EACH
def test_every_variable_is_used_and_every_used_one_is_there(board):
    known = {variable["name"] for variable in board["templating"]["list"]}
    used = set(re.findall(r"\$\{?(\w+)", json.dumps(board)))
    assert used - GRAFANAS_OWN == known


GRAFANAS_OWN = {"__all", "__rate_interval", "__range", "__field", "__data", "__from", "__to"}


@PANELS
def test_a_panel_explains_itself(panel):
    assert panel["title"]
    about, limits = panel["description"].split("\n\nLimits: ")
    assert len(about) > 5
    assert len(limits) > 5
    assert panel["fieldConfig"]["defaults"]["unit"]
    assert panel["fieldConfig"]["defaults"]["thresholds"]["steps"][0]["value"] is None


@PANELS
def test_a_panel_asks_the_chosen_source_and_names_its_series(panel):
    assert panel["datasource"]["uid"] == "${datasource}"
    many = panel["type"] in ("timeseries", "state-timeline")
    if many:
        assert panel["options"]["legend"]["showLegend"]
    for target in panel["targets"]:
        assert target["datasource"]["uid"] == "${datasource}"
        assert target["legendFormat"]
        assert "{{" in target["legendFormat"] or not many


@PANELS
def test_a_panels_link_leads_to_a_page_that_there_is(panel):
    for link in panel.get("links", ()):
        assert link["url"].removeprefix("${runbooks}/") in pages.names()


@EXPRESSIONS
def test_an_expression_parses_and_reads_metrics_of_the_catalogue(expr):
    promql_parser.parse(substituted(expr))
    assert metric_names(expr) <= set(catalog.metrics())


@EXPRESSIONS
def test_a_selector_holds_to_the_chosen_cluster_and_node(expr):
    for recorded, selector in re.findall(r"(\w+:)?gpudiag_[a-z0-9_]+(?::\w+)?(\{[^}]*\})?", expr):
        # What is recorded of a job as a whole is no node's.
        chosen = 'job=~"$job"' if recorded == "job:" else 'node=~"$node"'
        assert selector.startswith(f'{{cluster=~"$cluster", {chosen}')


@EXPRESSIONS
def test_counters_are_seen_by_their_rate_and_rates_fit_the_zoom(expr):
    for function, span in re.findall(r"(rate|increase)\([^()]*\[([^]]+)\]\)", expr):
        assert span == "$__rate_interval" or (function, span) == ("increase", "1h")
    if " unless " not in expr:
        before = re.findall(r"(\S*?)gpudiag_\w+_total\b", expr)
        assert all(text.endswith(("rate(", "increase(")) for text in before)


def test_every_metric_of_the_catalogue_is_on_some_panel():
    shown = metric_names(" ".join(expr for board in BOARDS for _, expr, _ in questions(board)))
    assert set(catalog.metrics()) - shown == set()


def test_the_dashboards_are_those_of_the_registry():
    assert sorted(NAMES) == sorted(registry.UIDS)
    assert {board["title"] for board in BOARDS} == {
        f"gpudiag / {title}" for title in registry.TITLES.values()
    }


LINKS = pytest.mark.parametrize(
    "url", sorted(set(re.findall(r'"(/d/[^"]*)"', json.dumps(BOARDS)))), ids=str
)


@LINKS
def test_a_link_to_a_dashboard_sets_variables_that_it_has(url):
    uid, _, query = url.removeprefix("/d/").partition("?")
    board = BOARDS[NAMES.index(uid)]
    known = {f"var-{variable['name']}" for variable in board["templating"]["list"]}
    assert {pair.partition("=")[0] for pair in query.split("&")} <= known | {"from", "to"}


@EACH
def test_what_is_drawn_over_a_dashboard_is_named_once_and_asks_the_chosen_source(board):
    marks = board["annotations"]["list"]
    assert {"Actions", "XIDs"} <= {mark["name"] for mark in marks} or board["uid"] == registry.AGENT
    assert len({mark["name"] for mark in marks}) == len(marks)
    assert all(mark["datasource"]["uid"] == "${datasource}" for mark in marks)


def test_a_limit_is_the_rules_own():
    board = BOARDS[NAMES.index("gpudiag-node")]
    slowed = next(panel for panel in panels(board) if panel["title"] == "Slowed down")
    share = RULES["thermal-throttle"].thresholds["share"]
    assert slowed["fieldConfig"]["defaults"]["thresholds"]["steps"][1]["value"] == share.default
    assert share.why in slowed["description"]
