"""Which dashboards there are, and which one shows a symptom: plain data, read without the SDK."""

from __future__ import annotations

from collections.abc import Mapping

NODE = "gpudiag-node"
TRAINING = "gpudiag-training"
MEMORY = "gpudiag-memory"
SERVING = "gpudiag-serving"
INCIDENT = "gpudiag-incident"
FLEET = "gpudiag-fleet"
AGENT = "gpudiag-agent"

SYMPTOMS: Mapping[str, tuple[str, ...]] = {
    NODE: (
        "cpu-pressure",
        "disk-watermark",
        "driver-mismatch",
        "driver-reset-required",
        "ecc-uncorrectable",
        "fabric-manager-down",
        "gpu-count-low",
        "gpu-lost",
        "gpu-xid",
        "mixed-workload-contention",
        "network-link-flapping",
        "nvlink-errors",
        "nvml-wedged",
        "pcie-degraded",
        "power-brake",
        "profiling-source-broken",
        "replica-does-not-fit",
        "row-remap-failed",
        "row-remap-pending",
        "thermal-throttle",
    ),
    TRAINING: (
        "checkpoint-and-storage",
        "loss-abnormal",
        "multi-gpu-underperforms",
        "rl-phase-imbalance",
        "startup-incomplete",
        "straggler",
        "training-interrupted",
    ),
    MEMORY: ("fragmentation", "host-memory-pressure", "memory-slow-growth", "startup-oom"),
    SERVING: (
        "crash-after-deploy",
        "not-ready",
        "output-quality-abnormal",
        "serving-latency-high",
        "serving-memory-growth",
        "serving-request-jitter",
        "serving-stalled",
        "serving-timeouts",
    ),
}
"""The symptoms that each dashboard has the figures of; the others are about no single symptom."""

TITLES: Mapping[str, str] = {
    NODE: "Node",
    TRAINING: "Training",
    MEMORY: "Memory",
    SERVING: "Serving",
    INCIDENT: "Incident",
    FLEET: "Fleet",
    AGENT: "Agent health",
}
UIDS = tuple(TITLES)

_BY_SYMPTOM = {symptom: uid for uid, symptoms in SYMPTOMS.items() for symptom in symptoms}


def dashboard_of(symptom: str) -> str:
    """The uid of the dashboard with the figures of a symptom of the catalogue."""
    return _BY_SYMPTOM[symptom]


def section(uid: str) -> str:
    """Where the pictures' page shows a dashboard: `agent-health`."""
    return TITLES[uid].lower().replace(" ", "-")


def path(uid: str, **variables: str) -> str:
    """The way to a dashboard below Grafana's address, with variables as they stand: `/d/uid?...`.

    A value is put in as given, so that an alert's template may stand in it.
    """
    chosen = "&".join(f"var-{name}={value}" for name, value in variables.items())
    return f"/d/{uid}?{chosen}" if chosen else f"/d/{uid}"
