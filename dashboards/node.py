"""The node: its findings, its GPUs from load to faults, and its host."""

from __future__ import annotations

from gpudiag.dashboards import faults, gpus, host, registry
from gpudiag.dashboards.common import Row, dashboard, findings, unknown
from gpudiag.dashboards.marks import ACTIONS, XIDS, checkpoints, starts
from gpudiag.dashboards.quirks import Json


def build() -> Json:
    """The dashboard as JSON."""
    return dashboard(
        registry.NODE,
        "One or several nodes: what is wrong, and the GPUs and the host behind it.",
        ("cluster", "node", "gpu"),
        (XIDS, ACTIONS, starts(), checkpoints()),
        (
            Row("What is wrong", (findings(), unknown())),
            gpus.state(),
            gpus.load(),
            gpus.memory(),
            gpus.heat(),
            faults.links(),
            faults.errors(),
            faults.driver(),
            host.machine(),
            host.network(),
        ),
    )
