"""Annotations: what happened, drawn over every panel of a dashboard."""

from __future__ import annotations

from dataclasses import dataclass

from gpudiag.dashboards.panels import DATASOURCE
from gpudiag.dashboards.quirks import builders, prometheus
from gpudiag.dashboards.variables import NODE, RANK, SERVER


@dataclass(frozen=True, slots=True)
class Mark:
    """An annotation: its expression, what it says, and its colour."""

    name: str
    expr: str
    says: str
    colour: str


def risen(series: str, span: str = "$__rate_interval") -> str:
    """How far a counter rose in a span; one that is born counts with what it is born with."""
    # Plus nothing drops the name, which `increase` drops too: both halves are one series.
    return f"{born(series, span)} + 0 or increase({series}[{span}])"


def born(series: str, span: str = "$__rate_interval") -> str:
    """The series that were not there a span ago."""
    return f"({series} unless {series} offset {span})"


def checkpoints(where: str = NODE) -> Mark:
    """Checkpoints of the ranks that a selector holds to."""
    saved = f"increase(gpudiag_checkpoint_saves_total{{{where}}}[$__rate_interval])"
    return Mark("Checkpoints", f"max by (job) ({saved}) > 0", "{{job}} saved a checkpoint", "blue")


def starts(where: str = NODE) -> Mark:
    """Starts and restarts of training processes: each has a pid of its own."""
    expr = f"count by (job) {born(f'gpudiag_train_info{{{where}}}')}"
    return Mark("Starts", expr, "{{job}}: processes started", "yellow")


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
CAPTURES = Mark(
    "Snapshots",
    f"count by (job, rank) {born(f'gpudiag_leak_site_bytes{{{RANK}}}')}",
    "{{job}} rank {{rank}}: memory snapshot with new call sites",
    "green",
)
_UP = f"gpudiag_serving_up{{{SERVER}}}"
SERVERS = Mark(
    "Server starts",
    f"max by (node, server) ({_UP} == 1 unless {_UP} offset $__rate_interval == 1)",
    "{{server}} came up",
    "yellow",
)
AGENTS = Mark(
    "Agent starts",
    f"count by (node, version) {born(f'gpudiag_build_info{{{NODE}}}')}",
    "{{node}}: agent {{version}} is seen",
    "yellow",
)


def annotation(mark: Mark) -> builders.AnnotationQuery:
    """The mark as Grafana asks for it."""
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
