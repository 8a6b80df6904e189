"""Call sites over time: from several snapshots of one process, or from one with its recording."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from gpudiag.agent.analysis.memory.digest import Device, Digest, Series
from gpudiag.agent.analysis.memory.frames import Site
from gpudiag.agent.analysis.memory.trend import FEW

Key = tuple[str, str]
"""A call site across the files of one run: its stable id and its line."""


@dataclass(slots=True)
class Line:
    """One call site over the points: live bytes and blocks.

    Of its blocks `kept` were there at the last point but one, `new` not, and `gone` are no more.
    """

    site: Site
    category: str
    sizes: list[int]
    counts: list[int]
    kept: int = 0
    new: int = 0
    gone: int = 0
    freed_at: tuple[Site, ...] = ()
    bulk: int = 0


@dataclass(slots=True)
class Timeline:
    """Comparable moments of one device, oldest first; bytes.

    `xs` count in `unit`s: steps where those are known, else snapshots or stretches of the
    recording. `seconds` are since the first point, empty where no times are told.
    `cyclic`: the points lie at the same phase of the step.
    """

    unit: str
    xs: list[float]
    seconds: list[float]
    live: list[int]
    reserved: list[int]
    lines: dict[Key, Line] = field(default_factory=dict)
    cyclic: bool = True

    @property
    def points(self) -> int:
        return len(self.xs)


def timeline(files: Sequence[Digest], device: int, every: int | None = None) -> Timeline | None:
    """The points of a device: the files where they are many, else the last file's recording.

    `every` are the steps between two files where they do not tell. None under two points.
    """
    found = [(f, d) for f in files for d in f.devices if d.device == device]
    recorded = [d for _, d in found if len(d.moments) >= 2]
    several = _of_files(found, every) if len(found) >= 2 else None
    if several and (len(found) >= FEW or not recorded):
        return several
    one = _of_recording(recorded[-1], every) if recorded else None
    if several and one and (one.unit != "step" or one.points < FEW):
        return several
    return one


def _of_recording(device: Device, every: int | None) -> Timeline:
    moments = device.moments
    timed = all(moment.time_us for moment in moments)
    found = Timeline(
        unit="step" if device.phase else "stretch",
        xs=[moment.step for moment in moments],
        seconds=[(m.time_us - moments[0].time_us) / 1e6 for m in moments] if timed else [],
        live=[moment.live for moment in moments],
        reserved=[moment.reserved for moment in moments],
        cyclic=bool(device.phase),
    )
    if every and not device.phase:
        found.unit, found.xs = "step", [x * every / max(1, len(moments) - 1) for x in found.xs]
    for line in device.series:
        _add(found.lines, device, line)
    return found


def _add(lines: dict[Key, Line], device: Device, line: Series) -> None:
    """Add a series to its call site: one line of code may have several kinds of stack."""
    site = device.sites[line.site]
    blank = Line(site, line.category, [0] * len(line.bytes), [0] * len(line.bytes))
    known = lines.setdefault(key_of(site), blank)
    known.sizes = [a + b for a, b in zip(known.sizes, line.bytes, strict=True)]
    known.counts = [a + b for a, b in zip(known.counts, line.counts, strict=True)]
    known.freed_at += tuple(device.sites[n] for n in line.freed_at)
    known.bulk = max(known.bulk, line.bulk)


def key_of(site: Site) -> Key:
    """What names a site within one run."""
    return site.id, f"{site.place} {site.function}"


def _of_files(found: Sequence[tuple[Digest, Device]], every: int | None) -> Timeline:
    files = [file for file, _ in found]
    unit, xs = _axis(files, every)
    times = [file.time_us for file in files]
    start = times[0]
    told = [t for t in times if t is not None]
    ordered = len(told) == len(times) and sorted(set(told)) == told
    made = Timeline(
        unit=unit,
        xs=xs,
        seconds=[(t - (start or 0)) / 1e6 for t in told] if ordered else [],
        live=[d.live + d.pending for _, d in found],
        reserved=[d.reserved for _, d in found],
        cyclic=unit == "step",
    )
    for at, (_, device) in enumerate(found):
        for hold in device.holds:
            site = device.sites[hold.site]
            blank = Line(site, hold.category, [0] * len(found), [0] * len(found))
            line = made.lines.setdefault(key_of(site), blank)
            line.sizes[at] += hold.asked
            line.counts[at] += hold.count
    _identify(made, found[-2][1], found[-1][1], found[-2][0].time_us or 2**63)
    _borrow(made, found[-1][1])
    return made


def _axis(files: Sequence[Digest], every: int | None) -> tuple[str, list[float]]:
    steps = [file.step for file in files]
    known = [step for step in steps if step is not None]
    if len(known) == len(steps) and all(a < b for a, b in pairwise(known)):
        return "step", [float(step) for step in known]
    if every:
        return "step", [float(n * every) for n in range(len(files))]
    return "snapshot", [float(n) for n in range(len(files))]


def _identify(made: Timeline, before: Device, after: Device, taken_us: int) -> None:
    """Tell blocks that stayed from such as came and went at the same place.

    Addresses are used again: a block stayed where its address and size did and it was born, as
    far as told, before the first of the two snapshots was taken at `taken_us`.
    """
    old = {(b.address, b.size): before.sites[b.site] for b in before.blocks}
    new = {(b.address, b.size) for b in after.blocks if b.born_us <= taken_us}
    for block in after.blocks:
        if line := made.lines.get(key_of(after.sites[block.site])):
            place = (block.address, block.size)
            stayed = place in old and place in new
            line.kept += stayed
            line.new += not stayed
    for place, site in old.items():
        if place not in new and key_of(site) in made.lines:
            made.lines[key_of(site)].gone += 1


def _borrow(made: Timeline, last: Device) -> None:
    for line in last.series:
        if known := made.lines.get(key_of(last.sites[line.site])):
            known.bulk = line.bulk
            known.freed_at = tuple(last.sites[n] for n in line.freed_at)
