"""The same incidents out of real servers and straight from their files: the same findings."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from gpudiag.agent.history.access import Access
from gpudiag.agent.history.diagnosing import Question, diagnose
from gpudiag.agent.history.listing import Chosen
from gpudiag.agent.history.report import episodes
from gpudiag.agent.recording.timeline import Timeline
from gpudiag.agent.replay import fresh_engine, load, replay
from gpudiag.probes import Labels
from tests.agent.history.days import write
from tests.prometheus import RunningPrometheus
from tests.tools import needs
from tests.victoria import RunningVictoria

INCIDENTS = Path(__file__).parents[2] / "incidents"
NAMES = (
    "cpu-pressure/loaders-outnumber-cores",
    "dialects/dcgm-exporter-alone",
    "disk-watermark/shared-memory",
    "ecc-uncorrectable/step-inside-a-hole",
    "gpu-count-low/fewer-than-before",
    "gpu-xid/counter-born-mid-run",
    "memory-slow-growth/driver-figure-alone",
    "multi-gpu-underperforms/near-miss-busy-host",
    "network-link-flapping/bad-cable",
    "pcie-degraded/gen1-under-load",
    "serving-latency-high/past-the-knee",
    "serving-stalled/one-request-never-ends",
    "straggler/narrow-link",
    "thermal-throttle/hot-until-the-fan-is-back",
    "training-interrupted/one-rank-never-enters",
)
START = time.time() // 3600 * 3600 - 86_400.0


def read(name: str) -> Timeline:
    return load(INCIDENTS / f"{name}.yaml")


def node(name: str) -> str:
    """What the exporter calls it, else the address it was scraped at."""
    said = {dict(labels).get("Hostname", "") for _, labels in read(name).keys} - {""}
    return next(iter(said), address(name))


def address(name: str) -> str:
    return name.replace("/", "-")


def scraped(name: str, labels: Labels) -> Labels:
    """As a Prometheus without honor_labels writes them down."""
    kept = {("exported_job" if key == "job" else key): value for key, value in labels}
    return tuple(sorted({**kept, "job": "gpus", "instance": f"{address(name)}:9440"}.items()))


def samples(names):
    for name in names:
        timeline = read(name)
        for index, at, value in zip(timeline.series, timeline.times, timeline.values, strict=True):
            metric, labels = timeline.keys[index]
            yield (metric, scraped(name, labels)), START + float(at), float(value)
        yield ("up", scraped(name, ())), START, 1.0


@pytest.fixture(scope="module", params=["prometheus", "victoria-metrics"])
def server(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    text = write(folder / "all.om", samples(NAMES))
    running: RunningPrometheus | RunningVictoria
    if request.param == "prometheus":
        running = RunningPrometheus(folder).backfill(text).start()
    else:
        running = RunningVictoria(folder).start().take(text)
    yield f"http://127.0.0.1:{running.port}"
    running.stop()


def from_file(timeline):
    return {
        (f.symptom, f.subject, f.cause, f.state, f.raised_at)
        for f in replay(timeline, fresh_engine()).findings()
    }


def from_server(url, name, timeline, **more):
    question = Question(
        Access(url), START - 1.0, START + timeline.end, chosen=Chosen(node=node(name)), **more
    )
    found = diagnose(question, lambda *_: None)
    (judged,) = found.nodes
    assert not judged.failed
    return judged


@needs("prometheus", "prometheus")
@needs("victoria-metrics", "victoria-metrics")
@pytest.mark.parametrize("name", NAMES)
def test_a_server_gives_the_findings_of_the_file(server, name):
    timeline = read(name)
    judged = from_server(server, name, timeline)
    found = {
        (f.symptom, f.subject, f.cause, f.state, round((f.raised_at or 0.0) - START, 3))
        for f in judged.findings
    }
    assert found == from_file(timeline)


@needs("prometheus", "prometheus")
@needs("victoria-metrics", "victoria-metrics")
def test_all_nodes_at_once_by_several_processes(server):
    end = START + 600.0
    found = diagnose(Question(Access(server), START - 1.0, end), lambda *_: None, workers=2)
    assert [one.node for one in found.nodes] == sorted(map(node, NAMES))
    assert not any(one.failed for one in found.nodes)
    told = {(one.node, one.last.symptom) for one in episodes(found)}
    assert ("straggler-narrow-link", "straggler") in told
