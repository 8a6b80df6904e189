"""One incident: the finding, its evidence and rivals, what was done, and what came of it."""

from __future__ import annotations

from gpudiag.dashboards import incident_around, registry
from gpudiag.dashboards.common import (
    RUNBOOK,
    Row,
    by_severity,
    dashboard,
    findings,
    lasting,
    unknown,
)
from gpudiag.dashboards.marks import ACTIONS, XIDS, checkpoints, risen, starts
from gpudiag.dashboards.panels import NO_LIMIT, Limits, Query, Text, graph, listing, number
from gpudiag.dashboards.quirks import Json
from gpudiag.dashboards.variables import FINDING, NODE

_WHICH = "{{symptom}} ({{node}} {{subject}})"
_PLACE = {"node": "node", "symptom": "symptom", "subject": "on what", "cause": "cause"}
_ONE = "node, instance, symptom, cause, subject"
_NAMES = Limits("none: these are names")


def build() -> Json:
    """The dashboard as JSON."""
    return dashboard(
        registry.INCIDENT,
        "One finding, as an alert's link opens it: why the agent says so, which causes it weighed,"
        " what was done about it and whether it helped.",
        ("cluster", "node", "symptom", "subject", "fact", "job", "rank", "gpu"),
        (XIDS, ACTIONS, starts(), checkpoints()),
        (
            _finding(),
            _evidence(),
            _actions(),
            Row("Beside it on the node", (findings(title="All findings"), unknown())),
            incident_around.row(),
        ),
    )


def _finding() -> Row:
    sure = f"max by (node, symptom, cause, subject) (gpudiag_finding_active{{{FINDING}}})"
    taken = f"gpudiag_finding_acknowledged_until_timestamp_seconds{{{FINDING}}} - time()"
    links = {"Runbook": RUNBOOK, "The agent's page": "http://${__field.labels.instance}/"}
    return Row(
        "The finding",
        (
            findings(width=16, where=FINDING, title="When it was there"),
            number(
                Text("Sure", "How sure the agent is of the cause now.", "percentunit",
                     Limits("none: each rule says how sure its evidence can make it")),
                Query(sure, "{{cause}} ({{node}} {{subject}})"),
                width=4,
            ),
            number(
                Text("Somebody is on it for", "What is left of an acknowledgement.", "s",
                     Limits("0, where nobody said so: `gpudiag findings ack`", ((0, "green"),),
                            below="orange")),
                Query(taken, _WHICH),
                width=4,
            ),
            listing(
                Text("What it was", "Symptom, cause and on what, as last found; 3 is critical, 2 a"
                     " warning.", "short",
                     _NAMES),
                Query(by_severity(FINDING, _ONE, whole=True), _WHICH),
                names={**_PLACE, "Value": "severity"},
                width=24,
                worst="severity",
                links=links,
                height=5,
            ),
        ),
    )  # fmt: skip


def _evidence() -> Row:
    fact = f"gpudiag_finding_evidence{{{FINDING}}}"
    row = f"{_WHICH} {{{{fact}}}} {{{{of}}}}"
    facts = {"subject": "on what", "fact": "figure", "of": "of"}
    rivals = {"subject": "on what", "cause": "cause", "rival": "lost"}
    by_fact = f'{{__name__=~"$fact", __name__=~"gpudiag_.+", {NODE}}}'
    return Row(
        "Evidence and rivals",
        (
            listing(
                Text("Evidence", "The figures that speak for the cause, as the rule read them;"
                     " kernel and log lines stand on the agent's page.", "short",
                     Limits("none: what was expected stands on the agent's page")),
                Query(lasting(fact), row),
                names={**facts, "Value": "value", "unit": "unit"},
                width=16,
            ),
            listing(
                Text("Rivals", "Neighbouring causes that were weighed and lost; `gpudiag findings`"
                     " says why.", "short", _NAMES),
                Query(lasting(f"gpudiag_finding_rival{{{FINDING}}}"), _WHICH),
                names=rivals,
                width=8,
            ),
            graph(
                Text("Evidence over time", "Each figure over the largest it had in the last hour,"
                     " since their units differ.", "percentunit", NO_LIMIT),
                Query(f"{fact} / (max_over_time({fact}[1h]) > 0)", "{{fact}} {{of}} {{unit}}"),
                width=12,
            ),
            graph(
                Text("Before and after: $fact", "The series behind the figure, of the whole node,"
                     " also while there was no finding.", "short", NO_LIMIT),
                Query(by_fact, "{{node}} {{gpu}} {{job}} {{rank}} {{server}} {{sensor}}"
                      " {{reason}} {{xid}} {{clock}} {{kind}}"),
                width=12,
                zero=False,
                repeat="fact",
            ),
        ),
    )  # fmt: skip


def _actions() -> Row:
    done = f"gpudiag_actions_total{{{NODE}}}"
    in_hour = f"({risen(done, '1h')}) > 0"
    here = f'{NODE}, symptom=~"$symptom"'
    spent = Limits("1, since at 0 the guard refuses what is not urgent", ((1, "green"),),
                   below="orange")  # fmt: skip
    return Row(
        "Actions and outcome",
        (
            listing(
                Text("Actions", "What the ladder did on this node in the last hour, and how"
                     " it ended: verified means that the finding went away.", "short", _NAMES),
                Query(in_hour, "{{action}} {{outcome}}"),
                names={"node": "node", "action": "action", "outcome": "outcome", "Value": "times"},
                width=8,
            ),
            graph(
                Text("Actions over time", "Each decision, by outcome.", "short",
                     Limits("none: a dry run only writes down")),
                Query(risen(done), "{{action}} {{outcome}}"),
                width=8,
            ),
            graph(
                Text("Came back", "Times the finding fired in the last hour; more than once after"
                     " an action says that the action did not help.", "short",
                     Limits("2: once more than one incident explains", ((2, "orange"),))),
                Query(risen(f"gpudiag_findings_total{{{here}}}", "1h"), "{{symptom}}: {{cause}}"),
                width=4,
            ),
            number(
                Text("Actions left", "That the guard would still allow.", "short", spent),
                Query(f"gpudiag_action_budget_remaining{{{NODE}}}", "{{node}}"),
                width=4,
            ),
        ),
    )  # fmt: skip
