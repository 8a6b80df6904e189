"""The real agent and a collector: figures and findings arrive by the names of the conventions."""

from __future__ import annotations

import pytest

from tests.agent.exporters.collector import attributes, collecting
from tests.running import RunningAgent, wait_for

CONFIG = """
node: {{name: n1}}
exporters:
  otlp: {{endpoint: "{metrics}", logs_endpoint: "{logs}", interval: 500ms}}
"""
XID = "NVRM: Xid (PCI:0000:41:00): 79, pid=1234, name=python, GPU has fallen off the bus."


@pytest.fixture
def collector():
    with collecting() as server:
        yield server


def told(collector, symptom):
    return [r for r in collector.records() if attributes(r)["gpudiag.symptom"] == symptom]


def units(collector):
    """Of the metrics that came last."""
    if not collector.received:
        return {}
    (scope,) = collector.received[-1].resource_metrics[0].scope_metrics
    return {metric.name: metric.unit for metric in scope.metrics}


def test_a_finding_and_the_figures_reach_the_collector(collector, tmp_path):
    config = CONFIG.format(metrics=collector.url, logs=collector.logs_url)
    agent = RunningAgent(tmp_path, config=config, environment={"NODE_NAME": "k1"}).start()
    try:
        agent.kernel(XID)
        record = wait_for(lambda: told(collector, "gpu-xid"), seconds=30)[0]
        assert (record.event_name, record.severity_text) == ("gpudiag.finding.raised", "ERROR")
        assert attributes(record)["system.device"] == "0000:41:00.0"
        (of,) = collector.logs[0].resource_logs
        assert attributes(of.resource)["k8s.node.name"] == "k1"
        wait_for(lambda: units(collector).get("gpudiag.host.memory_available") == "By", seconds=20)
        wait_for(lambda: agent.metric("gpudiag_probe_success", probe="otlp-logs") == [1.0])
    finally:
        agent.stop()
