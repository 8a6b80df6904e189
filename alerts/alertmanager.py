"""Alertmanager's side: an example of routes and inhibition, and the texts that are sent."""

from __future__ import annotations

from typing import Any

RECEIVERS = "http://127.0.0.1:9095"
"""Where the example sends: a receiver of your own; take its slack_configs or pagerduty_configs."""

TEMPLATES = "gpudiag.tmpl"

_RAW = "GpudiagRaw.*"

TEXTS = """\
{{/* What a person is told: symptom and cause first, then who, how sure, and where to go on. */}}
{{ define "gpudiag.title" -}}
[{{ .Status | toUpper }}{{ if eq .Status "firing" }}:{{ .Alerts.Firing | len }}{{ end }}] \
{{ with .CommonLabels.severity }}{{ . }}: {{ end }}{{ .CommonLabels.alertname }}\
{{ with .CommonLabels.cause }} ({{ . }}){{ end }}
{{- end }}

{{ define "gpudiag.text" -}}
{{ range .Alerts -}}
{{ .Annotations.summary }}
{{ .Annotations.description }}
{{ with .Labels.instance }}Node: {{ . }}
{{ end }}{{ with .Annotations.runbook_url }}Runbook: {{ . }}
{{ end }}{{ with .Annotations.dashboard_url }}Dashboard: {{ . }}
{{ end }}
{{ end }}
{{- end }}
"""


def configuration() -> dict[str, Any]:
    """The example: who is told of what, how soon, and what is kept quiet beside its cause."""
    return {
        "route": _routes(),
        "inhibit_rules": _inhibitions(),
        "receivers": [
            _receiver("gpudiag-page"),
            _receiver("gpudiag-ticket"),
            {"name": "gpudiag-nobody"},
        ],
        "templates": [TEMPLATES],
    }


def _routes() -> dict[str, Any]:
    return {
        "receiver": "gpudiag-ticket",
        # One message an alert and node: eight hot GPUs of a node are one cooling problem.
        "group_by": ["alertname", "cluster", "instance"],
        "group_wait": "30s",
        "group_interval": "5m",
        "repeat_interval": "12h",
        "routes": [
            {
                "matchers": ['severity="critical"'],
                "receiver": "gpudiag-page",
                "group_wait": "10s",
                "repeat_interval": "1h",
            },
            {"matchers": ['severity="info"'], "receiver": "gpudiag-nobody"},
        ],
    }


def _inhibitions() -> list[dict[str, Any]]:
    """Causes that silence their consequences; within one agent its findings fold by themselves."""
    return [
        # The engine has judged what the raw alert only sees: one page, the one with the cause.
        {
            "source_matchers": ['symptom=~".+"', f'alertname!~"{_RAW}"'],
            "target_matchers": [f'alertname=~"{_RAW}"'],
            "equal": ["instance", "symptom", "subject"],
        },
        # A finding that grew worse: its milder series lives on for `keep_firing_for`.
        {
            "source_matchers": [
                'severity="critical"',
                'symptom=~".+"',
                f'alertname!~"{_RAW}"',
            ],
            "target_matchers": ['severity=~"warning|info"', 'symptom=~".+"'],
            "equal": ["instance", "symptom", "subject"],
        },
        # A driver that does not answer is why its probe is blind.
        {
            "source_matchers": ['symptom=~"nvml-wedged|driver-mismatch"'],
            "target_matchers": ['alertname="GpudiagAgentBlind"', 'probe="nvml"'],
            "equal": ["instance"],
        },
    ]


def _receiver(name: str) -> dict[str, Any]:
    url = f"{RECEIVERS}/{name}"
    return {"name": name, "webhook_configs": [{"url": url, "send_resolved": True}]}
