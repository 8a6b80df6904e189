"""The alert and recording rules, from the registry of symptoms and the catalogue of metrics."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gpudiag.agent.rules import RULES
from gpudiag.alerts import recording
from gpudiag.probes import catalog

RUNBOOKS = "http://127.0.0.1:9440/runbooks"
"""Where an agent serves the pages; replace it by wherever yours can be reached."""

Rule = dict[str, Any]

KEEP = "2m"
"""An alert outlives a restart of the agent or a missed scrape, so that it is not paged twice."""


def alert_name(symptom: str) -> str:
    """`thermal-throttle` -> `GpudiagThermalThrottle`."""
    return "Gpudiag" + "".join(word.capitalize() for word in symptom.split("-"))


def groups() -> list[dict[str, Any]]:
    """All rule groups, in the shape of a Prometheus rule file."""
    return [
        recording.group(),
        {"name": "gpudiag-findings", "rules": [_finding(symptom) for symptom in sorted(RULES)]},
        {"name": "gpudiag-raw", "rules": list(_raw())},
        {"name": "gpudiag-agent", "rules": list(_agent())},
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
            "runbook_url": f"{RUNBOOKS}/{symptom}#{{{{ $labels.cause }}}}",
        },
    }


def _raw() -> Iterator[Rule]:
    """What must page even where the agent's engine does not judge: straight from the driver."""
    yield _alert(
        "GpudiagRawGpuLost",
        "gpudiag_gpu_lost == 1",
        "critical",
        "The driver has lost a GPU.",
        "GPU {{ $labels.gpu }} ({{ $labels.uuid }}) does not answer the driver.",
        "gpu-lost",
        hold="1m",
    )
    yield _alert(
        "GpudiagRawXid",
        _risen(f'gpudiag_gpu_xid_errors_total{{xid=~"{"|".join(map(str, _critical_xids()))}"}}'),
        "critical",
        "A GPU reported a critical XID.",
        "XID {{ $labels.xid }} on GPU {{ $labels.gpu }} ({{ $labels.uuid }}).",
        "gpu-xid",
        section="xid-{{ $labels.xid }}",
    )
    yield _alert(
        "GpudiagRawEccUncorrectable",
        'increase(gpudiag_gpu_ecc_errors_total{kind="uncorrected",scope="volatile"}[10m]) > 0',
        "critical",
        "A GPU had an uncorrectable memory error.",
        "GPU {{ $labels.gpu }} ({{ $labels.uuid }}): {{ $value | humanize }} in ten minutes.",
        "ecc-uncorrectable",
    )
    yield _alert(
        "GpudiagRawThermalThrottle",
        "sum by (uuid, gpu, instance)"
        ' (rate(gpudiag_gpu_throttle_seconds_total{reason=~"hw_thermal|sw_thermal"}[5m])) > 0.3',
        "warning",
        "A GPU slows itself down because it is hot.",
        "GPU {{ $labels.gpu }} ({{ $labels.uuid }}): {{ $value | humanizePercentage }} of the"
        " time.",
        "thermal-throttle",
        hold="5m",
    )


def _agent() -> Iterator[Rule]:
    """The watchman's own health."""
    yield _alert(
        "GpudiagAgentMissing",
        "absent(gpudiag_build_info)",
        "critical",
        "No gpudiag agent is scraped.",
        "No agent has been scraped for five minutes: nothing is watched.",
        hold="5m",
    )
    yield _alert(
        "GpudiagAgentBlind",
        "gpudiag_probe_success == 0",
        "warning",
        "An agent cannot read one of its sources.",
        "Probe {{ $labels.probe }} on {{ $labels.instance }} fails; the agent's page says why.",
        hold="5m",
    )
    yield _alert(
        "GpudiagAgentDropping",
        "rate(gpudiag_samples_dropped_total[5m]) > 0",
        "warning",
        "An agent drops samples.",
        "{{ $labels.instance }} drops {{ $value | humanize }} samples a second: its node is"
        " overloaded, or a clock is off.",
        hold="10m",
    )


def _alert(
    name: str,
    expr: str,
    severity: str,
    summary: str,
    description: str,
    runbook: str = "",
    *,
    section: str = "",
    hold: str = "",
) -> Rule:
    annotations = {"summary": summary, "description": description}
    if runbook:
        annotations["runbook_url"] = f"{RUNBOOKS}/{runbook}#{section or runbook}"
    held = {"for": hold} if hold else {}
    return {
        "alert": name,
        "expr": expr,
        **held,
        "keep_firing_for": KEEP,
        "labels": {"severity": severity},
        "annotations": annotations,
    }


def _risen(series: str) -> str:
    """Counters that rose in ten minutes, or that began in them: the first event makes the series.

    Not those that began with the agent itself: it counts again what the kernel log still holds.
    """
    began = f"({series} unless {series} offset 10m)"
    return f"increase({series}[10m]) > 0 or {began} and on (instance) gpudiag_build_info offset 10m"


def _critical_xids() -> list[int]:
    return [code for code, xid in sorted(catalog.xids().items()) if xid.severity == "critical"]
