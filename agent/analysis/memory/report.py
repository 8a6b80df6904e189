"""The whole report on a set of snapshots, as the terminal, the page and --json show it."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from gpudiag.agent.analysis.memory.asked import Asked
from gpudiag.agent.analysis.memory.digest import Device, Digest
from gpudiag.agent.analysis.memory.growth import Growth, growths
from gpudiag.agent.analysis.memory.outlook import Outlook, Sums, headroom, outlook, sums
from gpudiag.agent.analysis.memory.requests import Request, serve, typical
from gpudiag.agent.analysis.memory.ruling import Case, Verdict
from gpudiag.agent.analysis.memory.timeline import Timeline, timeline
from gpudiag.agent.analysis.memory.verdict import verdict

ORDER = (
    "fragmentation", "out of memory", "leak", "outside torch", "host side", "caching", "sawtooth",
    "cannot tell", "warm-up", "steady",
)  # fmt: skip


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """One device of one rank: its verdict and what that rests on.

    `device` is its last snapshot; `files` are the names of all of its snapshots, oldest first.
    """

    rank: int | None
    files: tuple[str, ...]
    device: Device
    verdict: Verdict
    growth: list[Growth]
    points: Timeline | None
    sums: Sums | None
    outlook: Outlook | None
    requests: list[Request]
    notes: tuple[str, ...]


class Report(msgspec.Struct, frozen=True):
    """All parts, the one that most needs looking at first."""

    parts: list[Part]

    @property
    def verdict(self) -> Verdict:
        return self.parts[0].verdict


def report(files: Sequence[tuple[int | None, Digest]], asked: Asked) -> Report:
    """Judge every device of every rank; files are in the order in which they were taken."""
    ranks: dict[int | None, list[Digest]] = {}
    for rank, digest in files:
        ranks.setdefault(rank, []).append(digest)
    parts = [
        _part(rank, _in_order(of), device, asked)
        for rank, of in ranks.items()
        for device in sorted({d.device for file in of for d in file.devices})
    ]
    return Report(sorted(parts, key=lambda part: ORDER.index(part.verdict.kind)))


def _in_order(files: list[Digest]) -> list[Digest]:
    """By time where all tell it, else by step, else as they were given."""
    if all(file.time_us is not None for file in files):
        return sorted(files, key=lambda file: file.time_us or 0)
    if all(file.step is not None for file in files):
        return sorted(files, key=lambda file: file.step or 0)
    return files


def _part(rank: int | None, files: list[Digest], number: int, asked: Asked) -> Part:
    device = next(d for f in reversed(files) for d in f.devices if d.device == number)
    points = timeline(files, number, asked.every)
    found = growths(points) if points else []
    told = sums(points, found, asked) if points else None
    room = headroom(device, asked)
    end = outlook(points, [g for g in found if g.leaks], room) if points else None
    asks = requests(device, asked)
    case = Case(device, points, found, told, asks, end, asked, files[-1].step)
    return Part(
        rank=rank,
        files=tuple(file.name for file in files),
        device=device,
        verdict=verdict(case),
        growth=found,
        points=points,
        sums=told,
        outlook=end,
        requests=asks,
        notes=tuple(note for file in files for note in file.notes),
    )


def requests(device: Device, asked: Asked) -> list[Request]:
    """The failed request and the typical one, and whether each could be served."""
    pools = device.pools
    free = asked.free
    if free is None and asked.capacity is not None:
        free = max(0, asked.capacity - (asked.used[-1] if asked.used else device.reserved))
    asks = []
    if device.ooms:
        failed = device.ooms[-1]
        left = failed.device_free if free is None else free
        asks.append(
            serve("failed", failed.size, pools, left, stream=failed.stream, pool=failed.pool)
        )
    if size := typical(device.sizes):
        busiest = max((p for p in pools if not p.private), key=lambda p: p.live, default=None)
        asks.append(serve("typical", size, pools, free, stream=busiest.stream if busiest else 0))
    return asks
