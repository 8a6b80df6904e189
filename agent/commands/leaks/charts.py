"""The drawings of the page as inline SVG: no script, no font, nothing to load."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from gpudiag.agent.analysis.memory import categories, figures
from gpudiag.agent.analysis.memory.digest import Device, Row
from gpudiag.agent.analysis.memory.growth import Growth
from gpudiag.agent.analysis.memory.layout import FREE, PENDING

WIDTH, HEIGHT = 900, 240
LEFT, FOOT = 66, 20
MOST_LINES = 6
ROW = 7
_COLOURS = {category: f"var(--c{n})" for n, category in enumerate(categories.ALL)}
_COLOURS |= {FREE: "var(--free)", PENDING: "var(--pending)"}


def key(names: Sequence[str], colours: Mapping[str, str] = _COLOURS) -> str:
    """The legend of a chart."""
    items = (f'<span><i style="background:{colours[n]}"></i>{escape(n)}</span>' for n in names)
    return f'<div class="key">{"".join(items)}</div>'


def over_time(times: Sequence[float], values: Mapping[str, Sequence[float]], foot: str) -> str:
    """Stacked areas: bytes by category at `times` (0-1); "" where there are under two."""
    shown = [c for c in categories.ALL if any(values.get(c, ()))]
    if len(times) < 2 or not shown:
        return ""
    totals = [sum(values[c][n] for c in shown) for n in range(len(times))]
    top = max(totals) or 1
    base = [0.0] * len(times)
    parts = []
    for category in shown:
        upper = [b + v for b, v in zip(base, values[category], strict=True)]
        there = [_point(t, v / top) for t, v in zip(times, upper, strict=True)]
        back = [_point(t, v / top) for t, v in zip(times, base, strict=True)][::-1]
        name = f"{escape(category)}: {figures.change(values[category])}"
        parts.append(
            f'<polygon points="{" ".join(there + back)}" fill="{_COLOURS[category]}">'
            f"<title>{name}</title></polygon>"
        )
        base = upper
    return _svg("Live memory over time by category", "".join(parts) + _axes(top, foot)) + key(shown)


def lines(found: Sequence[Growth], xs: Sequence[float], unit: str) -> str:
    """The sites that grow most (those that leak first), one line each."""
    chosen = [g for g in found if g.leaks or g.grown > 0][:MOST_LINES]
    if len(xs) < 2 or not chosen:
        return ""
    top = max(max(g.series) for g in chosen) or 1
    span = (xs[-1] - xs[0]) or 1
    parts, colours = [], {}
    for n, growth in enumerate(chosen):
        name = f"{growth.site.short} {growth.site.function}".strip() or "(no frames)"
        colours[name] = f"var(--c{n})"
        pairs = zip(xs, growth.series, strict=True)
        points = " ".join(_point((x - xs[0]) / span, y / top) for x, y in pairs)
        parts.append(
            f'<polyline class="line" stroke="var(--c{n})" points="{points}">'
            f"<title>{escape(name)}: {figures.change(growth.series)}</title></polyline>"
        )
    foot = f"{unit} {xs[0]:g} to {xs[-1]:g}"
    drawn = _svg("Live memory per call site", "".join(parts) + _axes(top, foot))
    return drawn + key(list(colours), colours)


def ages(device: Device) -> str:
    """Live blocks by when they were made; "" without a recording."""
    if not device.entries:
        return ""
    born: dict[str, list[int]] = {}
    for hold in device.holds:
        row = born.setdefault(hold.category, [0] * len(hold.born))
        for n, count in enumerate(hold.born):
            row[n] += count
    bins = max(map(len, born.values()), default=0)
    top = max((sum(row[n] for row in born.values()) for n in range(bins)), default=0) or 1
    shown = [c for c in categories.ALL if c in born]
    parts = [_column(n, bins, [(c, born[c][n]) for c in shown], top) for n in range(bins)]
    foot = "first column: older than the recording; then its tenths, oldest first"
    axes = _axes(top, foot, unit="blocks")
    return _svg("Live blocks by age", "".join(parts) + axes) + key(shown)


def _column(n: int, bins: int, stack: Sequence[tuple[str, int]], top: int) -> str:
    wide = (WIDTH - LEFT) / bins
    high = HEIGHT - FOOT
    y, parts = float(high), []
    for category, count in stack:
        tall = count / top * (high - 6)
        y -= tall
        if count:
            parts.append(
                f'<rect x="{LEFT + n * wide + 2:.1f}" y="{y:.1f}" width="{wide - 4:.1f}"'
                f' height="{tall:.1f}" fill="{_COLOURS[category]}">'
                f"<title>{escape(category)}: {count:,} blocks</title></rect>"
            )
    return "".join(parts)


def segments(rows: Sequence[Row]) -> str:
    """Each segment as a bar, as long as it is large, cut where its use changes."""
    if not rows:
        return ""
    longest = max(row.size for row in rows) or 1
    parts, kinds = [], set()
    for n, row in enumerate(rows):
        x = 0.0
        private = ", private pool" if row.private else ""
        for size, what in row.runs:
            wide = size / longest * WIDTH
            kinds.add(what)
            parts.append(
                f'<rect x="{x:.1f}" y="{n * ROW}" width="{max(wide, 0.4):.1f}" height="{ROW - 1}"'
                f' fill="{_COLOURS.get(what, _COLOURS[FREE])}"><title>{row.address:#x}, stream'
                f" {row.stream}{private}: {escape(what)} {figures.size(size)}</title></rect>"
            )
            x += wide
    shown = [c for c in (*categories.ALL, PENDING, FREE) if c in kinds]
    high = len(rows) * ROW
    title = "Segments by address, with what lies in them"
    return f"{_open(title, high)}{''.join(parts)}</svg>{key(shown)}"


def _point(x: float, y: float) -> str:
    high = HEIGHT - FOOT
    return f"{LEFT + x * (WIDTH - LEFT):.1f},{high - y * (high - 6):.1f}"


def _axes(top: float, foot: str, unit: str = "bytes") -> str:
    high = HEIGHT - FOOT
    parts = []
    for part in (0.0, 0.5, 1.0):
        y = high - part * (high - 6)
        label = figures.size(top * part) if unit == "bytes" else f"{top * part:,.0f}"
        parts.append(
            f'<line class="axis" x1="{LEFT}" x2="{WIDTH}" y1="{y:.1f}" y2="{y:.1f}"/>'
            f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{label}</text>'
        )
    return "".join(parts) + f'<text x="{LEFT}" y="{HEIGHT - 4}">{escape(foot)}</text>'


def _svg(title: str, inside: str) -> str:
    return f"{_open(title, HEIGHT)}{inside}</svg>"


def _open(title: str, high: int) -> str:
    return f'<svg viewBox="0 0 {WIDTH} {high}" role="img" aria-label="{escape(title)}">'
