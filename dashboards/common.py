"""What every dashboard has: variables, links, annotations and the findings' timeline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpudiag.dashboards import quirks, registry, variables
from gpudiag.dashboards.marks import Mark, annotation
from gpudiag.dashboards.panels import Limits, Query, Text, timeline
from gpudiag.dashboards.quirks import Json, Panels, builders, models, statetimeline
from gpudiag.dashboards.variables import NODE

FINDING_WORDS = {1: ("info", "blue"), 2: ("warning", "orange"), 3: ("critical", "red")}
YES_NO_BAD = {0: ("no", "green"), 1: ("yes", "red")}
YES_NO_GOOD = {0: ("no", "red"), 1: ("yes", "green")}
RUNBOOK = "${runbooks}/${__field.labels.symptom}#${__field.labels.cause}"

_TAG = "gpudiag"
TIMES = "from=${__from}&to=${__to}"
_THIS = {name: f"${{__field.labels.{name}}}" for name in ("node", "symptom", "subject")}
TO_INCIDENT = f"{registry.path(registry.INCIDENT, **_THIS)}&{TIMES}"


@dataclass(frozen=True, slots=True)
class Row:
    """Panels under one heading; a collapsed one asks Prometheus nothing until it is opened."""

    title: str
    panels: Panels
    collapsed: bool = False


def lasting(series: str, *, whole: bool = True) -> str:
    """Series as they last were in the time shown: an incident is looked at when it is over, too."""
    return f"last_over_time({series}[$__range])" if whole else series


def by_severity(
    where: str, keep: str = "node, symptom, cause, subject", *, whole: bool = False
) -> str:
    """Active findings as 1, 2, 3 for info, warning, critical; with `whole` those of all the time
    that the dashboard shows.
    """
    parts = (
        f"(max by ({keep}) ({lasting(active, whole=whole)}) > bool 0) * {value}"
        for value, (word, _) in sorted(FINDING_WORDS.items(), reverse=True)
        for active in [f'gpudiag_finding_active{{{where}, severity="{word}"}}']
    )
    return " or ".join(parts)


def findings(width: int = 16, where: str = NODE, title: str = "Findings") -> statetimeline.Panel:
    """What the agents found, by severity; a row leads to the section of its cause."""
    text = Text(
        title,
        "What the agents diagnosed: symptom, cause and on what. Click a row for the runbook, or for"
        " the incident with its evidence.",
        "short",
        Limits("the colour is the finding's severity, which its rule gives"),
    )
    query = Query(by_severity(where), "{{symptom}}: {{cause}} ({{node}} {{subject}})")
    links = {"Runbook": RUNBOOK, "Incident": TO_INCIDENT}
    return timeline(text, query, words=FINDING_WORDS, width=width, links=links)


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
    uid: str, about: str, names: Sequence[str], marks: Sequence[Mark], rows: Sequence[Row]
) -> Json:
    """The dashboard of the registry's `uid`, ready to be written."""
    board = (
        builders.Dashboard(f"gpudiag / {registry.TITLES[uid]}")
        .uid(uid)
        .description(about)
        .tags([_TAG])
        .timezone("utc")
        .refresh("30s")
        .time("now-3h", "now")
        .tooltip(models.DashboardCursorSync.CROSSHAIR)
        .readonly()
        .link(_others())
    )
    for variable in (variables.datasource(), *map(variables.variable, names), variables.runbooks()):
        board.with_variable(variable)
    for mark in marks:
        board.annotation(annotation(mark))
    for row in rows:
        quirks.add_row(board, row.title, row.panels, collapsed=row.collapsed)
    return quirks.finished(board.build())


def _others() -> builders.DashboardLink:
    link = builders.DashboardLink("gpudiag").type(models.DashboardLinkType.DASHBOARDS)
    return link.tags([_TAG]).as_dropdown(True).include_vars(True).keep_time(True)
