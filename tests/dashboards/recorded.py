"""Replayed incidents as one recording that a Prometheus can be filled with."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import yaml

from gpudiag.agent.exporters.told import told
from gpudiag.agent.recording.meta import Meta
from gpudiag.agent.recording.timeline import Timeline
from gpudiag.agent.recording.writer import RecordingWriter
from gpudiag.agent.replay import fresh_engine, load, replay
from gpudiag.alerts import recording
from gpudiag.probes import Sample, labels
from tests.prometheus import RunningPrometheus

INCIDENTS = Path(__file__).parents[1] / "incidents"
HERE = Path(__file__).parent
OURS = ("chat", "leak", "rest")
"""Beside this file: what no rule's incident has, or not together."""

SPAN = 4200.0
"""Of each incident the last seconds are taken."""

_WHOLE = """
demo
straggler/one-loader-starves
straggler/hot-gpu
straggler/delay-inside-backward
memory-slow-growth/retained-tensors
memory-slow-growth/cycles-freed-by-gc
memory-slow-growth/loader-workers-grow
memory-slow-growth/predictions-kept-in-eval
memory-slow-growth/noise-outside-torch
gpu-xid/counter-born-mid-run
fragmentation/a-few-old-blocks
fragmentation/graphs-of-many-shapes
fragmentation/memory-of-side-streams
host-memory-pressure/near-miss-page-cache
fabric-manager-down/near-miss-boot
mixed-workload-contention/beyond-its-quota
replica-does-not-fit/near-miss-it-runs-there
startup-oom/longer-than-configured
startup-incomplete/first-collective-hangs
checkpoint-and-storage/near-miss-one-retry
checkpoint-and-storage/every-checkpoint-is-kept
checkpoint-and-storage/near-miss-saves-vary
loss-abnormal/climbs-away
loss-abnormal/fewer-samples-a-step
loss-abnormal/near-miss-loss-scale-overflows
loss-abnormal/near-miss-slower-steps
multi-gpu-underperforms/last-stage-too-heavy
multi-gpu-underperforms/tensor-group-crosses-nodes
serving-latency-high/hot-gpu
serving-latency-high/near-miss-longer-answers
serving-request-jitter/near-miss-hit-ratio-breathes
serving-memory-growth/idle-and-not-empty
serving-stalled/engine-process-gone
serving-timeouts/books-as-prompts
output-quality-abnormal/an-encoder-gives-nan
output-quality-abnormal/near-miss-quantised-and-like
"""

USED: dict[str, float | None] = {
    **dict.fromkeys(_WHOLE.split()),
    "healthy/training-day": 6000.0,
    "healthy/serving-day": 43200.0,
}
"""Incidents, each a node of its own, and at which second to stop; None for its end."""

_STEP = 15.0


@dataclass(frozen=True, slots=True)
class Recorded:
    """`metrics` is an OpenMetrics file that ends at `end`, epoch seconds."""

    metrics: Path
    end: float


@dataclass(frozen=True, slots=True)
class _Place:
    """Where an incident is put: its node, a word that tells its jobs from others', and the shift
    from its times to epoch seconds.
    """

    node: str
    word: str
    shift: float

    def moved(self, sample: Sample) -> Sample:
        """With the labels that a scrape attaches."""
        pairs = {name: self._own_job(name, value) for name, value in sample.labels}
        pairs |= {"node": self.node, "cluster": "lab", "instance": f"{self.node}:9440"}
        # A figure that is itself a time moves along.
        value = sample.value + self.shift * sample.metric.endswith("_timestamp_seconds")
        return Sample(sample.metric, labels(**pairs), sample.time + self.shift, value)

    def _own_job(self, label: str, value: str) -> str:
        """All incidents call their job alike, and Prometheus would take them for one."""
        if label == "job":
            return f"{value}-{self.word}"
        return re.sub(r"\bjob=([^,]+)", rf"job=\1-{self.word}", value)


def record(folder: Path, end: float) -> Recorded:
    """Write the incidents and what an agent that replays them exports of its findings."""
    writer = RecordingWriter(folder / "recording", Meta(), max_bytes=2**30)
    for name, last in USED.items():
        timeline = load(INCIDENTS / f"{name}.yaml")
        writer.add(list(_as_node(name, timeline, last or timeline.end, end)))
    for name in OURS:
        timeline = load(HERE / f"{name}.yaml")
        writer.add(list(_as_node(name, timeline, timeline.end, end)))
    writer.close(end)
    return Recorded(folder / "recording" / "metrics.om", end)


def filled(recorded: Recorded, folder: Path, lookback: str = "5m") -> RunningPrometheus:
    """A running Prometheus with the incidents, and with what the fleet's rules make of them."""
    rules = folder / "rules.yaml"
    rules.write_text(yaml.safe_dump({"groups": [recording.group()]}))
    running = RunningPrometheus(folder, lookback=lookback).backfill(recorded.metrics).start()
    return running.record(rules, recorded.end - SPAN, recorded.end)


def _as_node(name: str, timeline: Timeline, last: float, end: float) -> Iterator[Sample]:
    place = _Place(name, name.rpartition("/")[2], end - last)
    for sample in timeline.samples(0, last)[0]:
        if sample.time >= last - SPAN:
            yield place.moved(sample)
    for sample in _own(timeline, last):
        yield place.moved(sample)


def _own(timeline: Timeline, last: float) -> Iterator[Sample]:
    """The agent's series about itself, from when it is scraped or the finding fires on."""
    build = labels(version=version("gpudiag"), revision="unknown", python="3.12")
    found = replay(timeline, fresh_engine()).findings() if timeline.expectations.expect else ()
    # One that was resolved comes once more, after it was told as firing.
    last_told = {(f.id, f.raised_at): f for f in found if f.raised_at is not None}
    fired = [f for f in last_told.values() if not f.explained_by]
    time = max(0.0, last - SPAN)
    while time <= last:
        yield Sample("gpudiag_build_info", build, time, 1.0)
        firing = [finding for finding in fired if finding.fired_within(time, time)]
        yield from (Sample(*reading) for reading in told(firing, time))
        time += _STEP
