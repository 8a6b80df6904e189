"""The panels of a fleet's jobs: those that lose the most time to one rank first."""

from __future__ import annotations

from gpudiag.agent.fleet import queries
from gpudiag.dashboards import registry
from gpudiag.dashboards.common import TIMES, Row
from gpudiag.dashboards.panels import Limits, Query, Text, from_rule, graph, listing
from gpudiag.dashboards.variables import NODE

_CHOSEN = 'cluster=~"$cluster", job=~"$job"'
_LATE = "straggler"


def jobs() -> Row:
    """Jobs, and how far one rank holds the others up."""
    step = f"{queries.STEP.name}{{{_CHOSEN}}}"
    behind = f"{queries.BEHIND.name}{{{_CHOSEN}}}"
    waited = f"{queries.WAITED.name}{{{_CHOSEN}}}"
    ranks = f'sum by (cluster, job) ({queries.RANKS.name}{{{NODE}, job=~"$job"}})'
    to_job = f"{registry.path(registry.TRAINING, job='${__data.fields.job}')}&{TIMES}"
    names = {"cluster": "cluster", "job": "job", "Value #A": "ranks", "Value #B": "step"}
    names |= {"Value #C": "slowest computes longer by", "Value #D": "share of the step"}
    return Row(
        "Jobs",
        (
            listing(
                Text("Jobs, worst first", "By the share of a step that the slowest rank computes"
                     " longer than the usual one: all others wait for it.", "s",
                     Limits(from_rule(_LATE, "floor").reason), _LATE),
                Query(ranks, "{{job}}"),
                Query(step, "{{job}}"),
                Query(behind, "{{job}}"),
                Query(f"{behind} / {step}", "{{job}}"),
                names=names,
                units={"ranks": "short", "share of the step": "percentunit"},
                width=12,
                worst="share of the step",
                links={"Training": to_job},
            ),
            graph(
                Text("Held up by one rank", "Seconds of a step that the usual rank waits longer"
                     " than the one that all wait for.", "s",
                     Limits("none: compare with the time of a step"), _LATE),
                Query(waited, "{{cluster}} {{job}}"),
                width=12,
            ),
        ),
    )  # fmt: skip
