"""The example for Alertmanager: accepted by amtool, routed and inhibited as it says, its texts."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from gpudiag.alerts import alertmanager, rules
from tests.tools import needs

GENERATED = Path(__file__).parents[2] / "alerts/generated"
CONFIG = GENERATED / "alertmanager.yaml"

pytestmark = needs("amtool", "prometheus-alertmanager")


def amtool(*arguments: str | Path) -> str:
    done = subprocess.run(
        ["amtool", *map(str, arguments)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_it_is_accepted() -> None:
    assert "SUCCESS" in amtool("check-config", CONFIG)


@pytest.mark.parametrize(
    ("severity", "receiver"),
    [
        ("critical", "gpudiag-page"),
        ("warning", "gpudiag-ticket"),
        ("info", "gpudiag-nobody"),
    ],
)
def test_the_severity_decides_who_is_told(severity: str, receiver: str) -> None:
    labels = ["alertname=GpudiagGpuXid", f"severity={severity}"]
    route = ["config", "routes", "test", f"--config.file={CONFIG}"]
    assert amtool(*route, f"--verify.receivers={receiver}", *labels).strip() == receiver


def test_every_raw_alert_can_be_silenced_by_the_finding_of_the_same() -> None:
    raw = [
        r for g in rules.groups() for r in g["rules"] if r.get("alert", "").startswith("GpudiagRaw")
    ]
    names = {rule["alert"] for g in rules.groups() for rule in g["rules"] if "alert" in rule}
    for rule in raw:
        assert rules.alert_name(rule["labels"]["symptom"]) in names
        assert "$labels" in rule["labels"]["subject"]
    (first, *_) = alertmanager.configuration()["inhibit_rules"]
    assert first["equal"] == ["instance", "symptom", "subject"]


def test_the_texts_say_what_whose_and_where_to_go_on(tmp_path: Path) -> None:
    alert = {
        "status": "firing",
        "labels": {"alertname": "GpudiagGpuXid", "instance": "n1:9440"},
        "annotations": {
            "summary": "A GPU reported an XID.",
            "description": "uuid=GPU-3: xid-79, 97% sure.",
            "runbook_url": "http://r/gpu-xid#xid-79",
            "dashboard_url": "http://g/d/gpudiag-node?var-node=n1",
        },
    }
    data = {
        "receiver": "gpudiag-page",
        "status": "firing",
        "alerts": [alert],
        "groupLabels": {},
        "commonLabels": {"alertname": "GpudiagGpuXid", "severity": "critical", "cause": "xid-79"},
        "commonAnnotations": {},
        "externalURL": "http://am",
    }
    (tmp_path / "data.json").write_text(json.dumps(data))
    render = ["template", "render", f"--template.glob={GENERATED / alertmanager.TEMPLATES}"]
    render.append(f"--template.data={tmp_path / 'data.json'}")
    title = amtool(*render, '--template.text={{ template "gpudiag.title" . }}')
    assert title.strip() == "[FIRING:1] critical: GpudiagGpuXid (xid-79)"
    text = amtool(*render, '--template.text={{ template "gpudiag.text" . }}')
    for line in (
        "uuid=GPU-3: xid-79",
        "n1:9440",
        "http://r/gpu-xid#xid-79",
        "http://g/d/gpudiag-node",
    ):
        assert line in text
