"""What every alert rule looks like: severity, hold, texts, and where its links lead."""

from __future__ import annotations

from typing import Any

from gpudiag.dashboards.registry import AGENT, dashboard_of, path

RUNBOOKS = "http://127.0.0.1:9440/runbooks"
"""Where an agent serves the pages; replace it by wherever yours can be reached."""

GRAFANA = "http://127.0.0.1:3000"
"""Where Grafana shows the dashboards; replace it by wherever yours can be reached."""

Rule = dict[str, Any]

KEEP = "2m"
"""An alert outlives a restart of the agent or a missed scrape, so that it is not paged twice."""

GPU = "uuid={{ $labels.uuid }}"
SERVER = "server={{ $labels.server }}"
RANK = "job={{ $labels.job }},rank={{ $labels.rank }}"


def links(symptom: str, section: str) -> dict[str, str]:
    """The annotations that lead on: to the page at its section, to the dashboard at the node."""
    uid = dashboard_of(symptom) if symptom else AGENT
    found = {"dashboard_url": GRAFANA + path(uid, node="{{ $labels.node }}")}
    if symptom:
        found["runbook_url"] = f"{RUNBOOKS}/{symptom}#{section or symptom}"
    return found


def alert(
    name: str,
    expr: str,
    severity: str,
    summary: str,
    description: str,
    symptom: str = "",
    *,
    section: str = "",
    subject: str = "",
    hold: str = "",
) -> Rule:
    """One rule; `hold` is its `for`, `subject` whom it is about, as a finding of it would say."""
    about = {"symptom": symptom, "subject": subject}
    return {
        "alert": name,
        "expr": expr,
        **({"for": hold} if hold else {}),
        "keep_firing_for": KEEP,
        "labels": {"severity": severity, **{k: v for k, v in about.items() if v}},
        "annotations": {
            "summary": summary,
            "description": description,
            **links(symptom, section),
        },
    }


def risen(series: str) -> str:
    """Counters that rose in ten minutes, or that began in them: the first event makes the series.

    Not those that began with the agent itself: it counts again what the kernel log still holds.
    """
    began = f"({series} unless {series} offset 10m)"
    return f"increase({series}[10m]) > 0 or {began} and on (instance) gpudiag_build_info offset 10m"
