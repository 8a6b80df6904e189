"""The alert and recording rules, from the registry of symptoms and the catalogue of metrics."""

from __future__ import annotations

from typing import Any

from gpudiag.agent.rules import RULES
from gpudiag.alerts import agents, cross_node, raw, recording
from gpudiag.alerts.shape import GRAFANA, KEEP, Rule, links
from gpudiag.dashboards.registry import INCIDENT, path
from gpudiag.probes import catalog

THIS = {"node": "{{ $labels.node }}", "subject": "{{ $labels.subject }}"}


def alert_name(symptom: str) -> str:
    """`thermal-throttle` -> `GpudiagThermalThrottle`."""
    return "Gpudiag" + "".join(word.capitalize() for word in symptom.split("-"))


def groups() -> list[dict[str, Any]]:
    """All rule groups, in the shape of a Prometheus rule file."""
    return [
        recording.group(),
        {"name": "gpudiag-findings", "rules": [_finding(symptom) for symptom in sorted(RULES)]},
        {"name": "gpudiag-raw", "rules": list(raw.rules())},
        {"name": "gpudiag-agent", "rules": list(agents.rules())},
        {"name": "gpudiag-cross-node", "rules": list(cross_node.rules())},
    ]


def _finding(symptom: str) -> Rule:
    """The engine has held the symptom for as long as its rule asks: no `for` on top of that."""
    return {
        "alert": alert_name(symptom),
        "expr": f'gpudiag_finding_active{{symptom="{symptom}"}} > 0',
        "keep_firing_for": KEEP,
        "labels": {"severity": "{{ $labels.severity }}"},
        "annotations": {
            "summary": catalog.symptoms()[symptom].title + ".",
            "description": (
                "{{ $labels.subject }}: {{ $labels.cause }},"
                " {{ $value | humanizePercentage }} sure. The agent's page has the evidence."
            ),
            **links(symptom, "{{ $labels.cause }}"),
            # Evidence, rivals and actions of this one finding; the dashboards of its figures are a
            # click from there.
            "dashboard_url": GRAFANA + path(INCIDENT, **THIS, symptom=symptom),
        },
    }
