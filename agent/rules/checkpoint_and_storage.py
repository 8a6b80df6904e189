"""Checkpoints or their storage are in trouble."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from gpudiag.agent.rules._blame import Blame
from gpudiag.agent.rules._jobs import Job, job_of, jobs
from gpudiag.agent.rules._storage_words import storage_kind
from gpudiag.agent.rules._teams import CHECKPOINT, STEPS
from gpudiag.agent.rules.contract import (
    UNDETERMINED,
    Diagnosis,
    Evidence,
    Healthy,
    Limits,
    Rule,
    Suggestion,
    Threshold,
    Verdict,
)
from gpudiag.agent.window import Series, Window
from gpudiag.probes import Event

SAVES = "gpudiag_checkpoint_saves_total"
FAILURES = "gpudiag_checkpoint_failures_total"
UPLOAD_FAILURES = "gpudiag_checkpoint_upload_failures_total"
UPLOAD = "gpudiag_checkpoint_upload_seconds"
SIZE = "gpudiag_filesystem_size_bytes"
LEFT = "gpudiag_filesystem_available_bytes"
BACK = 7200.0
GIB = 2.0**30


def check(window: Window, limits: Limits) -> Iterator[Verdict]:
    """Judge every job that saves checkpoints, or whose log or events speak of them."""
    known = jobs(window)
    for labels in (*window.seen(SAVES), *window.seen(UPLOAD_FAILURES), *window.seen(CHECKPOINT)):
        name = labels.get("job", "")
        known.setdefault(name, Job(name))
    told = _told(window, known, limits)
    for job in known.values():
        events = told.get(job.name, {})
        saving = bool(events) or _saves(window, job)
        found = next((b for b in _examined(window, job, events, limits) if b), None)
        if found:
            yield _diagnosis(job, found)
        elif saving:
            yield Healthy(job.who())
    if not known and (events := told.get("", {})):
        found = next((b for b in _by_words(events) if b), None)
        if found:
            yield _diagnosis(Job(""), found)


def _saves(window: Window, job: Job) -> bool:
    metrics = (SAVES, UPLOAD_FAILURES, CHECKPOINT)
    return any(window.latest(metric, job=job.name) for metric in metrics)


_Events = Mapping[str, list[Event]]


def _told(
    window: Window, known: Mapping[str, Job], limits: Limits
) -> dict[str, dict[str, list[Event]]]:
    """What was told of checkpoints, by job and kind, oldest first."""
    found: dict[str, dict[str, list[Event]]] = {}
    for event in window.events(limits["recent"]):
        kind = _kind(event)
        if kind:
            job = job_of(known, event)
            if job or not known:
                of = found.setdefault(job.name if job else "", {})
                of.setdefault(kind, []).append(event)
    return found


def _kind(event: Event) -> str:
    if event.source.startswith("log"):
        return storage_kind(event.line)
    if event.source != "torch" or not event.type.startswith("checkpoint_"):
        return ""
    return storage_kind(event.line) or "failed" if event.type == "checkpoint_failed" else ""


def _examined(window: Window, job: Job, events: _Events, limits: Limits) -> Iterator[Blame | None]:
    yield from _by_words({k: v for k, v in events.items() if k == "checksum"})
    yield _disk(window, job, events, limits)
    yield _uploads(window, job, events, limits)
    yield _slow(window, job, limits)
    yield _failing(window, job, events, limits)


def _failing(window: Window, job: Job, events: _Events, limits: Limits) -> Blame | None:
    """Saves that fail for a reason that nobody told, or that no documented cause covers."""
    told = [Evidence(event.source, event.line) for event in events.get("failed", [])[-2:]]
    for rise in window.increase(FAILURES, limits["recent"], job=job.name):
        if rise.value > 0.0:
            told.append(Evidence(FAILURES, rise.value, "failures", "0", rise.labels))
    words = "saving failed, and nothing tells of a full disk or a broken file"
    return Blame(UNDETERMINED, 0.6, words, told) if told else None


def _by_words(events: _Events) -> Iterator[Blame]:
    causes = {
        "checksum": ("checksum-mismatch", "a checkpoint is not what was written", 0.9),
        "space": ("disk-watermark", "there was no room for a checkpoint", 0.9),
        "upload": ("upload-failing", "a checkpoint could not be uploaded", 0.8),
    }
    for kind, (cause, words, sure) in causes.items():
        if kind in events:
            last = events[kind][-1]
            yield Blame(cause, sure, words, [Evidence(last.source, last.line)])


def _uploads(window: Window, job: Job, events: _Events, limits: Limits) -> Blame | None:
    failed = 0.0
    evidence: list[Evidence] = []
    for series in window.series(UPLOAD_FAILURES, BACK, job=job.name):
        rose = np.flatnonzero(np.diff(series.values) > 0.0)
        if not len(rose):
            continue
        since = float(series.times[rose[-1] + 1])
        number = float(series.values[-1] - series.values[0])
        # One that failed and went well at the next try is what retries are for.
        again = number >= limits["failures"]
        if window.now - since <= limits["recent"] and again:
            failed = max(failed, number)
            expected = "uploads that succeed"
            evidence = [Evidence(UPLOAD_FAILURES, number, "failures", expected, series.labels)]
    lines = events.get("upload", [])
    if not failed and len(lines) < limits["failures"]:
        return None
    evidence += [Evidence(event.source, event.line) for event in lines[-2:]]
    words = f"{max(failed, float(len(lines))):.0f} uploads of checkpoints failed lately"
    return Blame("upload-failing", 0.9 if failed else 0.8, words, evidence)


def _disk(window: Window, job: Job, events: _Events, limits: Limits) -> Blame | None:
    """A disk that saving fills: step by step with every checkpoint, or full already."""
    refused = events.get("space", [])
    for point in window.latest(LEFT):
        of = {k: v for k, v in point.labels.items() if k in ("mountpoint", "node")}
        size, mount = window.value(SIZE, **of), point.labels.get("mountpoint", "")
        if not size or size < limits["smallest"] or point.value / size >= limits["filling"]:
            continue
        series = window.series(LEFT, BACK, **point.labels)[0]
        falls = _falls_at_saves(window, job, series, size)
        low = point.value / size < limits["low"]
        mine = any(mount != "/" and mount in event.line for event in refused)
        if not falls and not (low and mine):
            continue
        evidence = [
            Evidence(LEFT, point.value, "bytes", f"> {limits['low']:.0%} of {size:.3g}", of)
        ]
        evidence += [Evidence(event.source, event.line) for event in refused[-1:]]
        room = f"{mount or 'the file system'} has {point.value / GIB:,.0f} GiB left"
        soon = falls and point.value < limits["next"] * falls[1]
        if falls and falls[0] >= limits["kept"] and (low or soon or mine):
            words = f"{room}, {falls[0]} checkpoints took {falls[1] / GIB:,.0f} GiB each and none"
            return Blame("old-checkpoints-not-pruned", 0.88, words + " was removed", evidence)
        if low or mine:
            words = f"{room} and checkpoints are written there"
            return Blame("disk-watermark", 0.9 if mine else 0.8, words, evidence)
    if refused:
        return next(_by_words({"space": refused}))
    return None


def _falls_at_saves(
    window: Window, job: Job, series: Series, size: float
) -> tuple[int, float] | None:
    """How many saves took room and gave none back, and how much one takes; None for none."""
    saved = _save_times(window, job)
    if not len(saved) or len(series.times) < 4:
        return None
    steps = np.diff(series.values)
    least = max(0.002 * size, 3.0 * float(np.median(np.abs(steps))))
    drops = np.flatnonzero(steps <= -least)
    if not len(drops):
        return None
    spacing = float(np.median(np.diff(series.times)))
    ends = series.times[drops + 1]
    near = np.abs(ends[:, None] - saved[None, :]).min(axis=1) <= max(2.0 * spacing, 120.0)
    if near.sum() < 2 or near.mean() < 0.6:
        return None
    each = float(-np.median(steps[drops][near]))
    given = float(steps[steps > least].sum())
    count = int((np.diff(ends[near]) > 2.0 * spacing).sum()) + 1
    return (count, each) if given < 0.5 * each else None


def _save_times(window: Window, job: Job) -> np.ndarray:
    times = [
        event.time
        for event in window.events(BACK, source="torch", kind="checkpoint_saved")
        if event.fields.get("job", job.name) == job.name
    ]
    for series in window.series(SAVES, BACK, job=job.name):
        times += [float(t) for t in series.times[1:][np.diff(series.values) > 0.0]]
    for series in window.series(CHECKPOINT, BACK, job=job.name):
        times += [float(t) for t in series.times[series.values > 0.0]]
    return np.unique(np.array(times))


def _slow(window: Window, job: Job, limits: Limits) -> Blame | None:
    """Saves or uploads that take much longer than they did, or than lies between two of them."""
    for metric, what in ((CHECKPOINT, "a checkpoint"), (UPLOAD, "an upload")):
        for series in window.series(metric, BACK, job=job.name):
            taken = _each(series)
            if len(taken) < 2:
                continue
            before = float(np.median(taken[:-2])) if len(taken) > 3 else float(taken[0])
            last = float(taken[-2:].min()) if len(taken) > 3 else float(taken[-1])
            if last >= limits["slower"] * before and last - before >= limits["seconds"]:
                words = f"{what} takes {last:.0f} s where it took {before:.0f} s"
                expected = f"{before:.3g} as before"
                evidence = [Evidence(metric, last, "seconds", expected, series.labels)]
                return Blame("checkpoint-slow", 0.88, words, evidence)
    return None


def _each(series: Series) -> np.ndarray:
    """How long each one took: a gauge repeats its value until the next, or is 0 between."""
    values = series.values[series.values > 0.0]
    if not len(values):
        return values
    changed = np.concatenate([[True], np.diff(series.values) != 0.0])
    return np.asarray(series.values[changed & (series.values > 0.0)])


def _diagnosis(job: Job, found: Blame) -> Diagnosis:
    said = Diagnosis(
        job.who(),
        found.cause,
        found.sure,
        f"Checkpoints of {job.name or 'the job'}: {found.words}.",
        tuple(found.evidence),
        actions=_ACTIONS,
    )
    grave = found.cause in ("checksum-mismatch", "disk-watermark")
    return replace(said, severity="critical") if grave else said


_ACTIONS = (
    Suggestion("observe", "See that the newest checkpoint loads before anything is removed."),
    Suggestion("notify", "Tell the job's owner: until it is mended a crash costs more than usual."),
    Suggestion("degrade", "Save less often, or elsewhere, until storage is well again."),
)

RULE = Rule(
    check=check,
    reads=frozenset({CHECKPOINT, SAVES, FAILURES, UPLOAD_FAILURES, UPLOAD, LEFT, STEPS}),
    events=frozenset({"torch", "log"}),
    clear=300.0,
    thresholds={
        "recent": Threshold(3600.0, "seconds", "checkpoints come every half hour or so"),
        "failures": Threshold(2.0, "count", "one failure is what a retry is for"),
        "smallest": Threshold(2.0**30, "bytes", "boot and firmware partitions are smaller"),
        "filling": Threshold(0.5, "ratio", "above this no disk is looked at"),
        "low": Threshold(0.10, "ratio", "room left; the usual watermark of 90 % used"),
        "next": Threshold(3.0, "checkpoints", "so many still fit: time to act"),
        "kept": Threshold(3.0, "checkpoints", "that many kept is no pruning that works"),
        "slower": Threshold(2.0, "ratio", "of what they took before; storage varies by half"),
        "seconds": Threshold(5.0, "seconds", "longer at least: a small file's jitter is none"),
    },
)
