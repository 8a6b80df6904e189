"""The example for Alertmanager: accepted by amtool, routed and inhibited as it says, its texts."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

from gpudiag.agent.findings.finding import subject_label
from gpudiag.alerts import raw
from gpudiag.alerts.alertmanager import TEMPLATES
from tests.alertmanager import alertmanager
from tests.alerts.promtool import GENERATED
from tests.alerts.test_rules import firings
from tests.running import PATIENCE, wait_for
from tests.tools import needs

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


HOT = {"instance": "n1:9440", "symptom": "thermal-throttle", "subject": "uuid=GPU-3"}
SAID = {"alertname": "GpudiagThermalThrottle", "severity": "warning", **HOT}
SEEN = {"alertname": "GpudiagRawThermalThrottle", "severity": "warning", **HOT}
BLIND = {"alertname": "GpudiagAgentBlind", "severity": "warning", "instance": "n1:9440"}
WEDGED = {"alertname": "GpudiagNvmlWedged", "severity": "critical", "symptom": "nvml-wedged"}


@needs("prometheus-alertmanager", "prometheus-alertmanager")
@pytest.mark.parametrize(
    ("root", "other", "quiet"),
    [
        (SAID, SEEN, True),
        (SAID, SEEN | {"subject": "uuid=GPU-4"}, False),
        (SAID, SEEN | {"instance": "n2:9440"}, False),
        (SEEN | {"severity": "critical"}, SAID, False),
        (SAID | {"severity": "critical"}, SAID, True),
        (WEDGED | {"instance": "n1:9440"}, BLIND | {"probe": "nvml"}, True),
        (WEDGED | {"instance": "n1:9440"}, BLIND | {"probe": "disk"}, False),
    ],
)
def test_a_cause_silences_its_consequence_and_nothing_else(root, other, quiet, tmp_path) -> None:
    with alertmanager(tmp_path, "http://127.0.0.1:1") as port:
        url = f"http://127.0.0.1:{port}/api/v2/alerts"
        body = json.dumps([{"labels": root}, {"labels": other}]).encode()
        urlopen(Request(url, body, {"Content-Type": "application/json"}), timeout=PATIENCE).close()

        def status() -> dict[str, Any]:
            with urlopen(url, timeout=PATIENCE) as answer:
                told = {frozenset(a["labels"].items()): a["status"] for a in json.load(answer)}
            found: dict[str, Any] = told[frozenset(other.items())]
            return found

        if quiet:
            wait_for(lambda: status()["inhibitedBy"])
        else:
            assert not status()["inhibitedBy"]


@pytest.mark.parametrize("rule", list(raw.rules()), ids=lambda rule: rule["alert"])
def test_a_raw_alert_is_labelled_as_the_finding_that_silences_it(rule) -> None:
    symptom = rule["labels"]["symptom"]
    label = r"{{ \$labels\.(\w+) }}"
    told = set(re.findall(label, rule["labels"]["subject"]))
    # Recordings of hooks that named no GPU have a subject without it; the rule needs the GPU.
    subjects = (finding.subject for finding, _ in firings(symptom))
    subject = next(one for one in subjects if told <= dict(one).keys())
    named = re.sub(label, lambda m: dict(subject)[m[1]], rule["labels"]["subject"])
    assert named == subject_label(subject)


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
    render = ["template", "render", f"--template.glob={GENERATED / TEMPLATES}"]
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
