"""A `Look` without probes: what was told, as the window would hold it."""

from __future__ import annotations

from collections.abc import Sequence

from gpudiag.agent.doctor.look import Look
from gpudiag.agent.findings.finding import Finding
from gpudiag.agent.rules.contract import Suggestion
from gpudiag.agent.scheduler import ProbeStatus
from gpudiag.agent.window import Window
from gpudiag.probes import Event, Sample, labels
from gpudiag.probes.kernel_lines import parse
from gpudiag.probes.kernel_repeats import Told, event_of

NOW = 1000.0
GPU = "GPU-1"


def told(metric: str, value: float, **pairs: str) -> Sample:
    return Sample(f"gpudiag_{metric}", labels(**pairs), NOW, value)


def kernel(text: str, time: float = NOW) -> Event:
    fact = parse(text)
    assert fact is not None, text
    return event_of(Told(time, None, text, fact))


def finding(symptom: str, summary: str = "It is bad.", **changes: object) -> Finding:
    plain = {
        "symptom": symptom,
        "subject": (),
        "cause": symptom,
        "confidence": 0.9,
        "severity": "critical",
        "state": "firing",
        "since": NOW,
        "summary": summary,
        "actions": (Suggestion("notify", "Do this."),),
    }
    return Finding(**{**plain, **changes})  # type: ignore[arg-type]


def glance(
    *samples: Sample,
    events: Sequence[Event] = (),
    findings: Sequence[Finding] = (),
    silent: Sequence[str] = (),
    **statuses: ProbeStatus,
) -> Look:
    window = Window([])
    window.now = NOW
    window.add(samples, events)
    good = {name: ok(name) for name in ("nvml", "kmsg", "host", "network", "infiniband")}
    probes = {**good, **statuses}
    return Look(6.0, window, findings, {}, events, probes, frozenset(silent))


def ok(name: str) -> ProbeStatus:
    return ProbeStatus(name, last_success=NOW)


def absent(name: str, detail: str) -> ProbeStatus:
    return ProbeStatus(name, available=False, detail=detail)
