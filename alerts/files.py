"""What ships as files: the rules for Prometheus and its operator, Alertmanager's side."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml

from gpudiag.alerts import alertmanager, exporters, rules

_HEAD = "# Written by `python -m gpudiag.alerts` from the registry of symptoms: do not edit.\n"


def files() -> dict[str, str]:
    """Every generated file by its name."""
    groups = {"groups": rules.groups()}
    resource = {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {"name": "gpudiag", "labels": {"app.kubernetes.io/name": "gpudiag"}},
        "spec": groups,
    }
    return {
        "gpudiag.rules.yaml": _yaml(groups),
        "prometheusrule.yaml": _yaml(resource),
        "exporters.rules.yaml": _yaml({"groups": [_exporters()]}),
        "alertmanager.yaml": _yaml(alertmanager.configuration()),
        alertmanager.TEMPLATES: alertmanager.TEXTS,
    }


def _exporters() -> dict[str, Any]:
    """A file of its own: beside agents these alerts would tell everything twice."""
    return {"name": "gpudiag-exporters", "rules": list(exporters.rules())}


def _yaml(content: Mapping[str, Any]) -> str:
    return _HEAD + yaml.safe_dump(content, sort_keys=False, width=100)
