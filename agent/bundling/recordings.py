"""The black box's recording of a finding, written anew without what must not leave the node."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from gpudiag.agent import kept_samples
from gpudiag.agent.bundling.redact import Redactor
from gpudiag.agent.findings.finding import Finding
from gpudiag.agent.kept_samples import Kept
from gpudiag.agent.recording import reader
from gpudiag.agent.recording.meta import Meta
from gpudiag.agent.recording.timeline import SeriesKey
from gpudiag.agent.recording.writer import RecordingWriter
from gpudiag.probes import Event, Sample
from gpudiag.probes.errors import GpudiagError


def redacted(
    folder: Path, finding: Finding, redactor: Redactor, target: Path, max_bytes: int
) -> None:
    """Write the recording of `folder` anew to `target`; `GpudiagError` where there is none."""
    path = kept_samples.recording_of(folder, finding)
    if path is None:
        raise GpudiagError("the black box kept none: it records critical findings only")
    timeline = reader.read(path)
    if timeline.end < (finding.raised_at or finding.since):
        raise GpudiagError(f"{path.name} ends before it fired, or is still being written")
    keys = {key: _key(key, redactor) for key in timeline.keys}
    meta = Meta(reason=redactor.text(finding.id), start=timeline.start)
    writer = RecordingWriter(target, meta, max_bytes=max_bytes)
    for _, samples, events, _ in timeline.batches(max(1.0, timeline.interval)):
        moved = [Sample(*keys[s.metric, s.labels], s.time, s.value) for s in samples]
        writer.add(moved, [_event(event, redactor) for event in events])
    writer.close(timeline.end)


def cleaned(kept: Kept, redactor: Redactor) -> Kept:
    """The kept samples with clean labels and events."""
    return replace(
        kept,
        columns=tuple((_key(key, redactor), times, values) for key, times, values in kept.columns),
        events=tuple(_event(event, redactor) for event in kept.events),
        newest={_key(key, redactor): value for key, value in kept.newest.items()},
    )


def _key(key: SeriesKey, redactor: Redactor) -> SeriesKey:
    return key[0], tuple((name, redactor.text(value)) for name, value in key[1])


def _event(event: Event, redactor: Redactor) -> Event:
    fields = redactor.plain(dict(event.fields))
    return replace(event, line=redactor.text(event.line), fields=fields)
