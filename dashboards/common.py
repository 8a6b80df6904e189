"""What every dashboard has: data source, variables, links, annotations and the findings' timeline.

Prometheus must keep the agent's own labels (`honor_labels: true`), since `job` names the training
job, and attach `node`; `cluster` is for those who have several. Without these labels the variables
stay at All, which shows everything.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpudiag.alerts.rules import RUNBOOKS
from gpudiag.dashboards import quirks
from gpudiag.dashboards.panels import DATASOURCE, Limits, Query, Text, timeline
from gpudiag.dashboards.quirks import Json, Panels, builders, models, prometheus, statetimeline

NODE = 'cluster=~"$cluster", node=~"$node"'
GPU = f'{NODE}, uuid=~"$gpu"'
RANK = f'{NODE}, job=~"$job", rank=~"$rank"'

FINDING_WORDS = {1: ("info", "blue"), 2: ("warning", "orange"), 3: ("critical", "red")}
YES_NO_BAD = {0: ("no", "green"), 1: ("yes", "red")}
YES_NO_GOOD = {0: ("no", "red"), 1: ("yes", "green")}

_TAG = "gpudiag"
_TO_ALL = models.VariableOption(selected=True, text="All", value="$__all")
_BY_TEXT = {
    "cluster": "label_values(gpudiag_build_info, cluster)",
    "node": 'label_values(gpudiag_build_info{cluster=~"$cluster"}, node)',
    "job": f"label_values(gpudiag_train_info{{{NODE}}}, job)",
}
_BY_NUMBER = {
    "rank": f'label_values(gpudiag_train_info{{{NODE}, job=~"$job"}}, rank)',
    "gpu": f"query_result(gpudiag_gpu_info{{{NODE}}})",
}
_GPU_TEXT = '/gpu="(?<text>[^"]*)".*uuid="(?<value>[^"]*)"/'


@dataclass(frozen=True, slots=True)
class Row:
    """Panels under one heading; a collapsed one asks Prometheus nothing until it is opened."""

    title: str
    panels: Panels
    collapsed: bool = False


@dataclass(frozen=True, slots=True)
class Mark:
    """An annotation: its expression, what it says, and its colour."""

    name: str
    expr: str
    says: str
    colour: str


def risen(series: str) -> str:
    """How far a counter rose; one that is born counts with the value it is born with."""
    born = f"({series} unless {series} offset $__rate_interval)"
    return f"{born} or increase({series}[$__rate_interval])"


XIDS = Mark(
    "XIDs",
    f"sum by (node, gpu, xid) ({risen(f'gpudiag_gpu_xid_errors_total{{{NODE}}}')}) > 0",
    "XID {{xid}} on {{node}} GPU {{gpu}}",
    "red",
)
ACTIONS = Mark(
    "Actions",
    f"sum by (node, action, outcome) ({risen(f'gpudiag_actions_total{{{NODE}}}')}) > 0",
    "{{action}}: {{outcome}} ({{node}})",
    "purple",
)
CHECKPOINTS = Mark(
    "Checkpoints",
    f"max by (job) (increase(gpudiag_checkpoint_saves_total{{{RANK}}}[$__rate_interval])) > 0",
    "{{job}} saved a checkpoint",
    "blue",
)
STARTS = Mark(
    "Starts",
    f"count by (job) (gpudiag_train_info{{{RANK}}}"
    f" unless gpudiag_train_info{{{RANK}}} offset $__rate_interval)",
    "{{job}}: processes started",
    "yellow",
)
CAPTURES = Mark(
    "Snapshots",
    f"count by (job, rank) (gpudiag_leak_site_bytes{{{RANK}}}"
    f" unless gpudiag_leak_site_bytes{{{RANK}}} offset $__rate_interval)",
    "{{job}} rank {{rank}}: memory snapshot with new call sites",
    "green",
)


def findings(width: int = 16) -> statetimeline.Panel:
    """What the agents found, by severity; a row leads to the section of its cause."""
    by_severity = (
        f"(max by (node, symptom, cause, subject)"
        f' (gpudiag_finding_active{{{NODE}, severity="{word}"}}) > bool 0) * {value}'
        for value, (word, _) in sorted(FINDING_WORDS.items(), reverse=True)
    )
    text = Text(
        "Findings",
        "What the agents diagnosed: symptom, cause and on what. Click a row for the runbook.",
        "short",
        Limits("the colour is the finding's severity, which its rule gives"),
    )
    query = Query(" or ".join(by_severity), "{{symptom}}: {{cause}} ({{node}} {{subject}})")
    link = "${runbooks}/${__field.labels.symptom}#${__field.labels.cause}"
    return timeline(text, query, words=FINDING_WORDS, width=width, link=link)


def unknown(width: int = 8) -> statetimeline.Panel:
    """Symptoms of which nobody can say whether they are there: no finding is no all-clear."""
    text = Text(
        "Cannot tell",
        "Symptoms for which input is missing, so that silence is no all-clear. Empty is good.",
        "short",
        Limits("any is worth a look: `gpudiag status` says what is missing"),
    )
    expr = f"max by (node, symptom) (gpudiag_symptom_unknown{{{NODE}}})"
    words = {1: ("cannot tell", "orange")}
    return timeline(text, Query(expr, "{{symptom}} ({{node}})"), words=words, width=width)


def dashboard(
    name: str, about: str, variables: Sequence[str], marks: Sequence[Mark], rows: Sequence[Row]
) -> Json:
    """The dashboard `gpudiag-name`, ready to be written."""
    board = (
        builders.Dashboard(f"gpudiag / {name}")
        .uid(f"gpudiag-{name.lower().replace(' ', '-')}")
        .description(about)
        .tags([_TAG])
        .timezone("utc")
        .refresh("30s")
        .time("now-3h", "now")
        .tooltip(models.DashboardCursorSync.CROSSHAIR)
        .readonly()
        .link(_others())
    )
    for variable in (_datasource(), *map(_variable, variables), _runbooks()):
        board.with_variable(variable)
    for mark in marks:
        board.annotation(_annotation(mark))
    for row in rows:
        quirks.add_row(board, row.title, row.panels, collapsed=row.collapsed)
    return quirks.finished(board.build())


def _others() -> builders.DashboardLink:
    link = builders.DashboardLink("gpudiag").type(models.DashboardLinkType.DASHBOARDS)
    return link.tags([_TAG]).as_dropdown(True).include_vars(True).keep_time(True)


def _datasource() -> builders.DatasourceVariable:
    return builders.DatasourceVariable("datasource").label("Data Source").type("prometheus")


def _runbooks() -> builders.ConstantVariable:
    return builders.ConstantVariable("runbooks").label("Runbooks").value(RUNBOOKS)


def _variable(name: str) -> builders.QueryVariable:
    number = name in _BY_NUMBER
    query = _BY_NUMBER[name] if number else _BY_TEXT[name]
    sort = models.VariableSort.NUMERICAL_ASC if number else models.VariableSort.ALPHABETICAL_ASC
    variable = (
        builders.QueryVariable(name)
        .label(name)
        .datasource(DATASOURCE)
        .query(query)
        .refresh(models.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(sort)
        .multi(True)
        .include_all(True)
        # Unlike .+ it holds for series without the label too, where there is but one cluster.
        .all_value(".*")
        .current(_TO_ALL)
    )
    return variable.regex(_GPU_TEXT) if name == "gpu" else variable


def _annotation(mark: Mark) -> builders.AnnotationQuery:
    target = prometheus.Dataquery().expr(mark.expr).ref_id("Anno").range()
    return (
        builders.AnnotationQuery()
        .name(mark.name)
        .datasource(DATASOURCE)
        .enable(True)
        .icon_color(mark.colour)
        .expr(mark.expr)
        .target(target)
        .title_format(mark.name)
        .text_format(mark.says)
    )
