"""When memory ends at this rate, and whether what grew is explained by the call sites."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from gpudiag.agent.analysis.memory.asked import Asked
from gpudiag.agent.analysis.memory.digest import Device
from gpudiag.agent.analysis.memory.growth import Growth
from gpudiag.agent.analysis.memory.timeline import Timeline


class Outlook(msgspec.Struct, frozen=True):
    """Bytes left for what grows, and units (`unit`) and seconds until they are gone.

    `soonest` and `latest` bound `after` by the 95 % band of the rate; None where unbounded.
    """

    headroom: int
    unit: str
    after: float
    soonest: float
    latest: float | None
    seconds: float | None


class Sums(msgspec.Struct, frozen=True, kw_only=True):
    """Growth over the points, told apart; bytes, None where it was not measured.

    `named` grew at call sites with frames, `bare` without any, `rest` of the live memory at
    neither; `cache` is reserved less live, `outside` the process less what torch reserved.
    """

    live: int
    reserved: int
    named: int
    bare: int
    rest: int
    cache: int
    outside: int | None
    host: int | None


def sums(points: Timeline, found: Sequence[Growth], asked: Asked) -> Sums:
    """Hold the growth of the call sites against that of the totals."""
    live = points.live[-1] - points.live[0]
    reserved = points.reserved[-1] - points.reserved[0]
    named = sum(g.grown for g in found if g.site.id)
    bare = sum(g.grown for g in found if not g.site.id)
    used = asked.used[-1] - asked.used[0] if len(asked.used) >= 2 else None
    return Sums(
        live=live,
        reserved=reserved,
        named=named,
        bare=bare,
        rest=live - named - bare,
        cache=reserved - live,
        outside=None if used is None else used - reserved,
        host=asked.host[-1] - asked.host[0] if len(asked.host) >= 2 else None,
    )


def headroom(device: Device, asked: Asked) -> int | None:
    """Bytes that can still be had: the device's, and the free ones of the largest pools.

    Of torch's own free memory only what empty_cache would give back, or what lies in the default
    pools' large blocks, serves growth; None where nobody told what the device has left.
    """
    free = asked.free
    if free is None and asked.capacity is not None:
        taken = asked.used[-1] if asked.used else device.reserved
        free = max(0, asked.capacity - taken)
    if free is None and device.ooms:
        free = device.ooms[-1].device_free
    if free is None:
        return None
    return free + sum(pool.free for pool in device.pools if not pool.private and not pool.stream)


def outlook(points: Timeline, leaks: Sequence[Growth], room: int | None) -> Outlook | None:
    """When `room` is gone; None where nothing grows or the room is not known."""
    rate = sum(leak.rate for leak in leaks)
    if room is None or rate <= 0:
        return None
    # Low may be nothing: then no latest moment can be named.
    low, high = sum(leak.low for leak in leaks), sum(leak.high for leak in leaks)
    hours = [leak.per_hour for leak in leaks]
    per_hour = sum(h for h in hours if h) if all(hours) else 0.0
    return Outlook(
        headroom=room,
        unit=points.unit,
        after=room / rate,
        soonest=room / max(high, rate),
        latest=room / low if low > 0 else None,
        seconds=room / per_hour * 3600.0 if per_hour else None,
    )
