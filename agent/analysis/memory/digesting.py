"""From a snapshot's segments and traces to its digest, one device after the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from gpudiag.agent.analysis.memory import holding, layout, steps
from gpudiag.agent.analysis.memory.digest import Alive, Chart, Device, Digest, Moment, Oom
from gpudiag.agent.analysis.memory.frames import Sites
from gpudiag.agent.analysis.memory.lifelines import chart, series
from gpudiag.agent.analysis.memory.pools import pools
from gpudiag.agent.analysis.memory.troughs import troughs
from gpudiag.agent.analysis.memory.walk import Walk, walk
from gpudiag.agent.analysis.snapshots import Memory, Segment
from gpudiag.agent.analysis.snapshots.shape import pool_id, whole

DRAWN, DRAWN_OF_MANY = 120, 16
"""Moments of the chart over time, and of that of a trace of `MANY` entries, to save time."""

MANY = 200_000


def digest(memory: Memory, name: str) -> Digest:
    """Boil a snapshot down; `name` is its file's, for the step that it may tell."""
    segments: dict[int, list[Segment]] = {}
    for segment in memory.segments:
        segments.setdefault(segment.device, []).append(segment)
    traced = {n for n, trace in enumerate(memory.traces) if trace}
    notes = list(memory.notes)
    devices = [
        _device(memory, device, segments.get(device, []), notes)
        for device in sorted(segments.keys() | traced)
    ]
    return Digest(
        name=name,
        step=steps.step_of(memory.annotations, name),
        time_us=_last_time(memory),
        notes=notes,
        devices=devices,
    )


def _last_time(memory: Memory) -> int | None:
    times = [note["time_us"] for note in memory.annotations[-1:]]
    for trace in memory.traces:
        last = trace[-1] if trace else None
        time = whole(last.get("time_us")) if isinstance(last, dict) else None
        times += [] if time is None else [time]
    return max(times, default=None)


def _device(memory: Memory, device: int, segments: list[Segment], notes: list[str]) -> Device:
    trace: Sequence[Any] = memory.traces[device] if device < len(memory.traces) else []
    here = [a for a in memory.annotations if a.get("device", device) in (device, -1)]
    sites = Sites()
    moments, marks = _marks(trace, here, sites)
    walked = walk(trace, marks, sites.number)
    if walked.bad:
        notes.append(f"{walked.bad} trace entries make no sense (left out)")
    held = holding.hold(segments, walked, sites, here)
    limit = memory.settings.get("max_split_size")
    limit = limit if type(limit) is int and limit > 0 else -1
    reserved = sum(segment.size for segment in segments)
    at = [marks.index(mark) for mark in moments.marks]
    total = held.live + held.pending
    return Device(
        device=device,
        sites=sites.found,
        reserved=reserved,
        live=held.live,
        pending=held.pending,
        requested=held.requested,
        framed=held.framed,
        pools=pools(segments, limit),
        holds=held.holds,
        series=series(walked, held, sites, at),
        moments=list(_moments(trace, walked, moments, at, total, reserved)),
        phase=moments.phase,
        chart=chart(walked, held, sites) if trace else Chart(),
        entries=len(trace),
        seconds=_seconds(trace),
        peak=max(total, total - walked.allocated[-1] + walked.peak),
        at_peak=holding.at_peak(walked, held, sites),
        sizes=_common(walked, segments),
        ooms=list(_ooms(walked, at)),
        pins=layout.pins(segments, held.site_of),
        rows=layout.rows(segments, held.category_of),
        blocks=[Alive(b.address, b.size, held.site_of(b), held.born_of(b)) for b in held.blocks],
        largest_split=limit,
        expandable=any(segment.expandable for segment in segments),
    )


def _marks(
    trace: Sequence[Any], annotations: Sequence[dict[str, Any]], sites: Sites
) -> tuple[steps.Moments, list[int]]:
    """The moments to compare, and with those of the chart all positions to look at."""
    moments = steps.moments(trace, annotations)
    if len(moments.marks) < steps.FEW:
        moments = troughs(trace, sites.number)
    drawn = DRAWN if len(trace) < MANY else DRAWN_OF_MANY
    even = [n * len(trace) // drawn for n in range(drawn + 1)]
    return moments, sorted({*even, *moments.marks})


def _moments(
    trace: Sequence[Any],
    walked: Walk,
    moments: steps.Moments,
    at: Sequence[int],
    live: int,
    reserved: int,
) -> Iterator[Moment]:
    for step, mark, position in zip(moments.steps, moments.marks, at, strict=True):
        entry = trace[min(mark, len(trace) - 1)]
        time = whole(entry.get("time_us")) if isinstance(entry, dict) else None
        yield Moment(
            step,
            time or 0,
            live - walked.allocated[-1] + walked.allocated[position],
            reserved - walked.reserved[-1] + walked.reserved[position],
        )


def _seconds(trace: Sequence[Any]) -> float:
    ends = [trace[0], trace[-1]] if trace else []
    times = [whole(e.get("time_us")) if isinstance(e, dict) else None for e in ends]
    if len(times) < 2 or times[0] is None or times[1] is None:
        return 0.0
    return max(0, times[1] - times[0]) / 1e6


def _common(walked: Walk, segments: list[Segment]) -> dict[int, int]:
    """How often which size was asked for; without a trace, of what is live."""
    if not walked.sizes:
        walked.sizes.update(b.size for s in segments for b in s.blocks if b.live)
    ranked = sorted(walked.sizes.items(), key=lambda item: -item[0] * item[1])
    return dict(ranked[:200])


def _ooms(walked: Walk, at: Sequence[int]) -> Iterator[Oom]:
    for failure in walked.failures[-20:]:
        yield Oom(
            size=failure.size,
            device_free=failure.device_free,
            time_us=whole(failure.entry.get("time_us")) or 0,
            site=failure.site,
            stream=whole(failure.entry.get("stream")) or 0,
            pool=pool_id(failure.entry),
            step=sum(position <= failure.mark for position in at),
        )
