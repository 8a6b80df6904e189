"""Many nodes, the worst first: which need somebody, which jobs lose time, which agents are gone."""

from __future__ import annotations

from gpudiag.agent.fleet import queries
from gpudiag.dashboards import fleet_jobs, registry
from gpudiag.dashboards.common import (
    FINDING_WORDS,
    RUNBOOK,
    TIMES,
    TO_INCIDENT,
    Row,
    by_severity,
    dashboard,
)
from gpudiag.dashboards.marks import ACTIONS, XIDS, risen
from gpudiag.dashboards.panels import Limits, Query, Text, bars, graph, listing, number, timeline
from gpudiag.dashboards.quirks import Json
from gpudiag.dashboards.variables import NODE

_ACTIVE = f"gpudiag_finding_active{{{NODE}}}"
_CRITICAL = f'gpudiag_finding_active{{{NODE}, severity="critical"}}'
_ANY = ((1, "red"),)


def build() -> Json:
    """The dashboard as JSON."""
    return dashboard(
        registry.FLEET,
        "All nodes and jobs, the worst first. It reads the recording rules of `gpudiag alerts"
        " export`, so that it costs a server little.",
        ("cluster", "node", "job"),
        (XIDS, ACTIONS),
        (_sums(), _worst(), fleet_jobs.jobs(), _nodes()),
    )


def _sums() -> Row:
    missing = f"gpudiag_gpus_expected{{{NODE}}} - gpudiag_gpus{{{NODE}}}"
    agents = f"gpudiag_build_info{{{NODE}}}"
    gone = f"max_over_time({agents}[1h]) unless {agents}"
    numbers = (
        ("Nodes", "With an agent that is scraped.", f"count({agents})", "nodes",
         Limits("none: the fleet's size is its own"), ""),
        ("Critical", "Nodes with a critical finding.",
         f"count(max by (node) ({_CRITICAL})) or vector(0)", "nodes",
         Limits("1: somebody should be on it", _ANY), ""),
        ("Agents gone", "Scraped within the last hour and not now.",
         f"count({gone}) or vector(0)", "nodes",
         Limits("1: nothing is known of that node", _ANY), ""),
        ("GPUs missing", "Expected, less those that the drivers list.",
         f"sum(clamp_min({missing}, 0))", "GPUs",
         Limits("1: a job that expects the GPU cannot start", _ANY), "gpu-count-low"),
        ("Cannot tell", "Symptoms and nodes for which input is missing.",
         f"sum(gpudiag_symptom_unknown{{{NODE}}}) or vector(0)", "symptoms",
         Limits("none: a node without a server has no serving figures to look at"), ""),
        ("Breakers open", "Agents that may not act.",
         f"sum(gpudiag_breaker_open{{{NODE}}}) or vector(0)", "agents",
         Limits("1: actions made things worse, or a person stopped them", _ANY), ""),
    )  # fmt: skip
    return Row(
        "The fleet",
        tuple(
            number(Text(title, about, "short", limits, runbook), Query(expr, legend))
            for title, about, expr, legend, limits, runbook in numbers
        ),
    )


def _worst() -> Row:
    score = f"sum by (cluster, node) ({by_severity(NODE, 'cluster, node, symptom, subject')})"
    worst = f"max by (cluster, node) ({by_severity(NODE, 'cluster, node')})"
    count = f"count by (cluster, node) ({_ACTIVE})"
    this_node = f"{registry.path(registry.NODE, node='${__field.labels.node}')}&{TIMES}"
    to_node = f"{registry.path(registry.NODE, node='${__data.fields.node}')}&{TIMES}"
    names = {"cluster": "cluster", "node": "node", "Value #A": "score", "Value #B": "worst"}
    line = {"node": "node", "symptom": "symptom", "cause": "cause", "subject": "on what"}
    return Row(
        "Worst first",
        (
            listing(
                Text("Nodes, worst first", "By the sum of severities: 3 for a critical finding, 2"
                     " for a warning, 1 for information. Nodes without a finding are left out.",
                     "short", Limits("none: the order is what matters")),
                Query(score, "{{node}}"),
                Query(worst, "{{node}}"),
                Query(count, "{{node}}"),
                names={**names, "Value #C": "findings"},
                width=9,
                worst="score",
                links={"Node": to_node},
                height=9,
            ),
            listing(
                Text("Findings, worst first", "3 is critical, 2 a warning, 1 information. A line"
                     " leads to the incident and to the runbook.", "short",
                     Limits("none: the order is what matters")),
                Query(by_severity(NODE), "{{node}}"),
                names={**line, "Value": "severity"},
                width=15,
                worst="severity",
                links={"Incident": TO_INCIDENT, "Runbook": RUNBOOK},
                height=9,
            ),
            graph(
                Text("Findings over time", "Active ones by symptom: many nodes with one symptom"
                     " have one cause.", "short", Limits("none: fewer is better")),
                Query(f"count by (symptom) ({_ACTIVE})", "{{symptom}}"),
                stacked=True,
                width=12,
            ),
            timeline(
                Text("Nodes over time", "The worst finding of each node that had one: who began,"
                     " and who followed.", "short",
                     Limits("the colour is the severity of the node's worst finding")),
                Query(by_severity(NODE, "cluster, node"), "{{node}}"),
                words=FINDING_WORDS,
                width=12,
                links={"Node": this_node},
            ),
        ),
    )  # fmt: skip


def _nodes() -> Row:
    versions = {"driver": "driver", "cuda": "CUDA", "name": "model", "Value": "nodes"}
    return Row(
        "Nodes",
        (
            bars(
                Text("Least busy", "GPU utilisation, mean over the node: the least busy first.",
                     "percentunit", Limits("none: an idle node may have no work")),
                Query(f"sort({queries.BUSY.name}{{{NODE}}})", "{{node}}"),
                top=1,
            ),
            listing(
                Text("Versions", "On how many nodes; odd ones out are the first suspects after an"
                     " upgrade.", "short", Limits("none: these are names"), "driver-mismatch"),
                Query(
                    f"count by (driver, cuda, name) ({queries.VERSIONS.name}{{{NODE}}})",
                    "{{driver}}",
                ),
                names=versions,
                width=12,
                worst="nodes",
                height=8,
            ),
            graph(
                Text("Actions of all agents", "In the interval, by outcome.", "short",
                     Limits("none: the budget of each agent bounds them")),
                Query(
                    f"sum by (action, outcome) ({risen(f'gpudiag_actions_total{{{NODE}}}')})",
                    "{{action}} {{outcome}}",
                ),
                width=24,
            ),
        ),
    )  # fmt: skip
