"""What is left of an incident, replayed from the draft, gives the finding again."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from gpudiag.agent import kept_samples, replay_check
from gpudiag.agent.engine import Engine, window_for
from gpudiag.agent.findings.book import Book
from gpudiag.agent.recording import incident
from gpudiag.agent.recording.expectations import Expect, Expectations
from gpudiag.agent.recording.meta import Meta
from gpudiag.agent.recording.writer import RecordingWriter
from gpudiag.agent.replay import fresh_engine, replay
from gpudiag.agent.rules import RULES, default_limits
from gpudiag.probes import Event, Sample

INCIDENTS = Path(__file__).parents[1] / "incidents"
EPOCH = 1_764_594_000.0


def lived(timeline, archive=None):
    """An agent that saw it at an epoch of its own: its window, and each finding when it fired."""
    window = window_for(RULES, archive=archive)
    limits = {name: default_limits(rule) for name, rule in RULES.items()}
    engine = Engine(RULES, limits, window, Book(RULES))
    window.now = EPOCH
    fired = {}
    for now, samples, events, on_step in timeline.batches(max(5.0, timeline.interval)):
        moved = [s._replace(time=s.time + EPOCH) for s in samples]
        wanted = engine.ingest(moved, [Event(e.time + EPOCH, *e_rest(e)) for e in events])
        for finding in engine.evaluate(now + EPOCH, None if on_step else wanted):
            if finding.state == "firing":
                fired[finding.symptom] = finding
    return window, fired


def e_rest(event):
    return event.source, event.line, event.type, event.fields


def incidents():
    """One that fires of each symptom, with the cause it expects."""
    for folder in sorted(INCIDENTS.iterdir()):
        for path in sorted(folder.glob("*.yaml")) if folder.is_dir() else ():
            if any(e.symptom == folder.name for e in incident.read(path).expectations.expect):
                yield pytest.param(path, id=folder.name)
                break


@pytest.mark.parametrize("path", list(incidents()))
def test_a_draft_of_any_symptom_gives_the_finding_again(path, tmp_path):
    timeline = incident.read(path).timeline
    window, fired = lived(timeline)
    finding = fired[path.parent.name]
    span = kept_samples.span_of(finding, window.now)
    kept = kept_samples.best(kept_samples.of_window(window, finding, span), tmp_path, finding)
    wanted = Expectations((Expect(finding.symptom, (), dict(finding.subject)),))
    text = kept_samples.incident_text(finding, span, kept, "", wanted)
    draft = incident.parse(text).timeline
    assert replay_check.check(wanted, replay(draft, fresh_engine())) == []


def test_what_left_the_window_comes_from_the_black_box(tmp_path):
    timeline = incident.read(
        INCIDENTS / "thermal-throttle" / "hot-until-the-fan-is-back.yaml"
    ).timeline
    _, fired = lived(timeline)
    finding = fired["thermal-throttle"]
    began = finding.raised_at
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(began))
    path = tmp_path / f"{stamp}-thermal-throttle.tar.gz"
    writer = RecordingWriter(path, Meta("n1", "why"), max_bytes=2**24)
    for _, samples, _, _ in timeline.batches(5.0):
        writer.add([Sample(s.metric, s.labels, s.time + EPOCH, s.value) for s in samples])
    writer.close(EPOCH + timeline.end)
    gone = kept_samples.Kept((), (), "the agent's history")
    kept = kept_samples.best(gone, tmp_path, finding)
    assert path.name in kept.source
    span = kept_samples.span_of(finding, began + 86400)
    wanted = Expectations((Expect("thermal-throttle", (), dict(finding.subject)),))
    draft = incident.parse(kept_samples.incident_text(finding, span, kept, "", wanted)).timeline
    assert replay_check.check(wanted, replay(draft, fresh_engine())) == []
