"""The tables of the terminal report; None where there is nothing to show."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rich.table import Table

from gpudiag.agent.analysis.memory import categories, figures
from gpudiag.agent.analysis.memory.compare import Change
from gpudiag.agent.analysis.memory.digest import Device
from gpudiag.agent.analysis.memory.frames import Site
from gpudiag.agent.analysis.memory.growth import Growth
from gpudiag.agent.analysis.memory.report import Part

_WRAPPED = ("<call site", "<pool", "<why", "<held by", "<how", "<")
_NARROWEST = 20
_BARS = " ▁▂▃▄▅▆▇█"
WIDTH = 24


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for column in columns:
        left = column.startswith("<")
        table.add_column(
            column.lstrip("<"),
            justify="left" if left else "right",
            overflow="fold",
            no_wrap=column not in _WRAPPED,
            min_width=_NARROWEST if column in _WRAPPED[:2] else None,
        )
    return table


def _where(site: Site) -> str:
    text = f"{site.short} {site.function}".strip()
    return f"{text} (via {site.via})" if site.via else text


def growth(part: Part, top: int) -> Table | None:
    """Call sites that changed, those that leak first."""
    changed = [g for g in part.growth if g.change not in ("stable", "churning")]
    if not changed or part.points is None:
        return None
    unit = part.points.unit
    table = _table("<call site", f"per {unit}", "per hour", "change", "blocks", "<how", "<levels")
    for g in changed[:top]:
        table.add_row(
            _where(g.site),
            figures.signed(g.rate) if g.leaks else "",
            figures.signed(g.per_hour) if g.leaks and g.per_hour else "",
            figures.signed(g.grown),
            f"{g.count_first} -> {g.count_last}",
            _how(g),
            spark(g.series),
        )
    if len(changed) > top:
        table.add_row(f"and {len(changed) - top} more (--top)")
    return table


def _how(g: Growth) -> str:
    by = f" by {g.by}" if g.by and g.leaks else ""
    return f"{'leaks' if g.leaks else g.change}{by}, {g.shape}"


def spark(levels: Sequence[float], width: int = WIDTH) -> str:
    """A series as a row of bars, its lowest level the foot."""
    picked = [levels[n * (len(levels) - 1) // max(1, width - 1)] for n in range(width)]
    picked = list(levels) if len(levels) <= width else picked
    low, span = min(picked), max(picked) - min(picked)
    return "".join(_BARS[1 + round(7 * (v - low) / span) if span else 1] for v in picked)


def composition(device: Device) -> Table | None:
    """Live bytes by category, now and at the recording's peak."""
    now, peak, guessed = _by_category(device)
    if not now and not peak:
        return None
    total = sum(now.values()) or 1
    table = _table("<category", "live", "share", "at the peak", "<")
    for category in categories.ALL:
        if now[category] or peak[category]:
            note = f"{figures.size(guessed[category])} told by size" if guessed[category] else ""
            at_peak = figures.size(peak[category]) if peak else ""
            share = f"{now[category] / total:.0%}"
            table.add_row(category, figures.size(now[category]), share, at_peak, note)
    return table


def _by_category(device: Device) -> tuple[Counter[str], Counter[str], Counter[str]]:
    now: Counter[str] = Counter()
    guessed: Counter[str] = Counter()
    peak: Counter[str] = Counter()
    for hold in device.holds:
        now[hold.category] += hold.bytes
        guessed[hold.category] += hold.bytes * hold.inferred
    for hold in device.at_peak:
        peak[hold.category] += hold.bytes
    return now, peak, guessed


def holders(device: Device, top: int) -> Table | None:
    """The call sites with most live bytes."""
    if not device.framed:
        return None
    table = _table("<call site", "live", "blocks", "<category", "<id")
    for hold in [h for h in device.holds if device.sites[h.site].id][:top]:
        site = device.sites[hold.site]
        row = (_where(site), figures.size(hold.bytes), str(hold.count), hold.category, site.id)
        table.add_row(*row)
    return table


def ages(device: Device) -> Table | None:
    """Live blocks by when they were made: a leak has some of every age."""
    if not device.entries:
        return None
    born: dict[str, list[int]] = {}
    for hold in device.holds:
        row = born.setdefault(hold.category, [0] * len(hold.born))
        for n, count in enumerate(hold.born):
            row[n] += count
    table = _table("<category", "older than the recording", "<by tenths of it, oldest first")
    for category in categories.ALL:
        if category in born:
            table.add_row(
                category, f"{born[category][0]:,}", " ".join(map(str, born[category][1:]))
            )
    return table


def pools(device: Device, top: int) -> Table | None:
    """Reserved memory by pool and what of its free part could be given back."""
    if not device.pools:
        return None
    table = _table("<pool", "reserved", "live", "free", "releasable", "held", "largest")
    for pool in device.pools[:top]:
        name = f"stream {pool.stream}, {'small' if pool.small else 'large'}"
        name += f", private {pool.id[0]}_{pool.id[1]}" if pool.private else ""
        name += ", expandable" if pool.expandable else ""
        sizes = (
            pool.reserved, pool.live + pool.pending, pool.free, pool.releasable, pool.held,
            pool.largest,
        )  # fmt: skip
        table.add_row(name, *map(figures.size, sizes))
    return table


def requests(part: Part) -> Table | None:
    """The requests that matter, and the allocator's answer."""
    if not part.requests:
        return None
    table = _table("<request", "size", "<served", "<why")
    for request in part.requests:
        table.add_row(request.kind, figures.size(request.size), request.answer, request.why)
    return table


def pins(device: Device, top: int) -> Table | None:
    """Segments that few live blocks keep, and whose blocks those are."""
    if not device.pins:
        return None
    table = _table("<segment", "size", "free in it", "<held by")
    for pin in device.pins[:top]:
        by = ", ".join(f"{device.sites[s].short} ({figures.size(n)})" for s, n in pin.by)
        table.add_row(f"{pin.address:#x}", figures.size(pin.size), figures.size(pin.free), by)
    return table


def ranks(parts: Sequence[Part], top: int) -> Table:
    """All ranks, those whose live memory lies furthest from the middle first."""
    lives = sorted(part.device.live for part in parts)
    middle = lives[len(lives) // 2] or 1
    table = _table("rank", "device", "live", "off the middle", "reserved", "<verdict")
    for part in sorted(parts, key=lambda p: -abs(p.device.live - middle))[:top]:
        table.add_row(
            "" if part.rank is None else str(part.rank),
            str(part.device.device),
            figures.size(part.device.live),
            f"{part.device.live / middle - 1:+.0%}",
            figures.size(part.device.reserved),
            part.verdict.kind,
        )
    return table


def changes(found: Sequence[Change], top: int) -> Table:
    """Two snapshots side by side."""
    table = _table("<call site", "before", "after", "change", "blocks", "<", "<id")
    for change in [c for c in found if c.change != "stable"][:top]:
        table.add_row(
            _where(change.site),
            figures.size(change.before),
            figures.size(change.after),
            figures.signed(change.after - change.before),
            f"{change.count_before} -> {change.count_after}",
            change.change + (", line moved" if change.moved else ""),
            change.site.id,
        )
    return table
