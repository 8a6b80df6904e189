"""The panels of what agents decide and do, and of the hooks that report to them."""

from __future__ import annotations

from gpudiag.dashboards.common import YES_NO_BAD, Row
from gpudiag.dashboards.marks import risen
from gpudiag.dashboards.panels import NO_LIMIT, Limits, Query, Text, graph, number, timeline
from gpudiag.dashboards.variables import NODE


def ledger() -> Row:
    """Findings, actions by outcome, the budget and the breaker."""
    spent = Limits("1, since at 0 the guard refuses", ((1, "green"),), below="orange")
    return Row(
        "The ledger",
        (
            graph(
                Text("Actions", "Each decision, by outcome; a dry run only writes down.", "short",
                     Limits("none: not_verified and failed are the ones to read up")),
                Query(risen(f"gpudiag_actions_total{{{NODE}}}"),
                      "{{node}} {{action}} {{outcome}}"),
            ),
            graph(
                Text("Findings that fired", "By symptom, in the interval.", "short",
                     Limits("none: what they are about is on the fleet's dashboard")),
                Query(
                    f"sum by (node, symptom) ({risen(f'gpudiag_findings_total{{{NODE}}}')})",
                    "{{node}} {{symptom}}",
                ),
            ),
            number(
                Text("Actions left", "That the guard would still allow in its window.", "short",
                     spent),
                Query(f"gpudiag_action_budget_remaining{{{NODE}}}", "{{node}}"),
                height=7,
            ),
            timeline(
                Text("Breaker", "Open while it forbids all actions.", "short",
                     Limits("yes: actions made things worse, or a person stopped them")),
                Query(f"gpudiag_breaker_open{{{NODE}}}", "{{node}}"),
                words=YES_NO_BAD,
                width=4,
                height=7,
            ),
        ),
    )  # fmt: skip


def hooks() -> Row:
    """Training processes that report, and the closer looks at them."""
    lost = "gpudiag_channel_packets_total"
    seconds = "gpudiag_memory_capture_seconds_total"
    return Row(
        "Hooks in training processes",
        (
            graph(
                Text("Ranks that report", "By job.", "short", Limits("none: the job's size is its"
                     " own; a fall is what matters"), "training-interrupted"),
                Query(f"count by (node, job) (gpudiag_train_info{{{NODE}}})", "{{node}} {{job}}"),
            ),
            graph(
                Text("Packets", "Per second, by what became of them.", "cps", NO_LIMIT),
                Query(f"rate({lost}{{{NODE}}}[$__rate_interval])", "{{node}} {{outcome}}"),
            ),
            graph(
                Text("Closer looks", "At processes whose memory grew: how many in the interval, and"
                     " their share of the time.", "short",
                     Limits("none: each lasts seconds and is limited in number"),
                     "memory-slow-growth"),
                Query(
                    f"increase(gpudiag_memory_captures_total{{{NODE}}}[$__rate_interval])",
                    "{{node}} looks",
                ),
                Query(f"rate({seconds}{{{NODE}}}[$__rate_interval])", "{{node}} share"),
            ),
        ),
    )  # fmt: skip
