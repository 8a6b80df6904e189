"""The node: its findings, its GPUs from load to faults, its host, and the agent that watches."""

from __future__ import annotations

from gpudiag.dashboards import faults, gpus, host
from gpudiag.dashboards.common import ACTIONS, XIDS, Row, dashboard, findings, unknown
from gpudiag.dashboards.quirks import Json


def build() -> Json:
    """The dashboard as JSON."""
    return dashboard(
        "Node",
        "One or several nodes: what is wrong, and the GPUs and the host behind it.",
        ("cluster", "node", "gpu"),
        (XIDS, ACTIONS),
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
            host.agent(),
        ),
    )
