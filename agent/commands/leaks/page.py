"""The report as one page: self-contained, readable offline, nothing in it can run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files
from string import Template

from gpudiag.agent.analysis.memory import figures, words
from gpudiag.agent.analysis.memory.report import Part, Report
from gpudiag.agent.commands.leaks import charts
from gpudiag.agent.commands.leaks.terminal import ends, runbook, who

_FOLDER = files("gpudiag.agent.commands.leaks")
MOST_PARTS = 8
MOST_SITES = 25


def page(report: Report) -> str:
    """The whole page as text."""
    first = report.parts[0]
    said = first.verdict
    parts = [_why(first)]
    if len(report.parts) > 1:
        parts.append(_section("Ranks and devices", _ranks(report.parts)))
    for part in report.parts[:MOST_PARTS]:
        title = f"<h1>{escape(who(part))}</h1>" if len(report.parts) > 1 else ""
        parts.append(title + _part(part))
    sure = f", {said.confidence:.0%} sure" if said.confidence else ""
    return Template(_FOLDER.joinpath("page.html").read_text("utf-8")).substitute(
        kind=escape(said.kind),
        style=_FOLDER.joinpath("style.css").read_text("utf-8"),
        title=escape(f"{said.kind.capitalize()}{sure}"),
        subtitle=escape(f"{who(first)}: {', '.join(first.files[:6])}"),
        summary=escape(said.summary),
        body="\n".join(parts),
    )


def _why(part: Part) -> str:
    said = part.verdict
    facts = [*said.evidence, *(f"not {r.cause}: {r.why_not}" for r in said.rivals)]
    steps = [*said.next, *(f"would settle it: {missing}" for missing in said.missing)]
    if named := runbook(said):
        steps.append(f"gpudiag runbook '{named}'")
    end = f"<p>{escape(ends(part.outlook))}</p>" if part.outlook else ""
    return (
        f'{end}<div class="cols"><div><h2>How we know</h2>{_list(facts)}</div>'
        f"<div><h2>Next</h2>{_list(steps)}</div></div>"
    )


def _part(part: Part) -> str:
    device, points = part.device, part.points
    time = f"the recording, {device.seconds:,.1f} s" if device.seconds else "the recording"
    over = charts.over_time(device.chart.times, device.chart.values, time)
    lines = charts.lines(part.growth, points.xs, points.unit) if points else ""
    return "".join(
        (
            _section("Live memory over time, by cause", over),
            _section("Growth per call site", lines + _growth(part)),
            _section("Age of live blocks", charts.ages(device)),
            _section("Call sites that hold most", _holders(part)),
            _section("Segments, the largest", charts.segments(device.rows)),
            _section("Free memory", _fragments(part)),
        )
    )


def _section(title: str, inside: str) -> str:
    return f"<h2>{escape(title)}</h2>{inside}" if inside else ""


def _list(items: Iterable[str]) -> str:
    return f"<ul>{''.join(f'<li>{escape(item)}</li>' for item in items)}</ul>"


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Columns that begin with `<` read from the left; the others are figures."""
    kinds = ["" if column.startswith("<") else ' class="n"' for column in columns]
    heads = zip(kinds, columns, strict=True)
    head = "".join(f"<th{kind}>{escape(name.lstrip('<'))}</th>" for kind, name in heads)
    body = "".join(
        "<tr>"
        + "".join(f"<td{k}>{escape(cell)}</td>" for k, cell in zip(kinds, row, strict=True))
        + "</tr>"
        for row in rows
    )
    # A table wider than a phone is moved by keys only where it can be focused.
    whole = f'<div class="scroll" tabindex="0"><table><tr>{head}</tr>{body}</table></div>'
    return whole if body else ""


def _growth(part: Part) -> str:
    unit = part.points.unit if part.points else "step"
    changed = [g for g in part.growth if g.change not in ("stable", "churning")][:MOST_SITES]
    return _table(
        ("<call site", f"per {unit}", "95 % band", "change", "blocks", "<how"),
        (
            (
                f"{g.site.place} {g.site.function}",
                figures.signed(g.rate) if g.leaks else "",
                f"{figures.size(g.low)} to {figures.size(g.high)}" if g.leaks else "",
                figures.signed(g.grown),
                f"{g.count_first} to {g.count_last}",
                f"{'leaks by ' + (g.by or 'size') if g.leaks else g.change}, {g.shape}",
            )
            for g in changed
        ),
    )


def _holders(part: Part) -> str:
    device = part.device
    return _table(
        ("<call site", "live", "blocks", "<category", "<called from"),
        (
            (
                f"{device.sites[h.site].place} {device.sites[h.site].function}".strip(),
                figures.size(h.bytes),
                f"{h.count:,}",
                h.category,
                "\n".join(device.sites[h.site].chain[1:6]),
            )
            for h in device.holds[:MOST_SITES]
        ),
    )


def _fragments(part: Part) -> str:
    device = part.device
    pins = _table(
        ("<segment", "size", "free in it", "<held by"),
        (
            (
                f"{pin.address:#x}",
                figures.size(pin.size),
                figures.size(pin.free),
                ", ".join(f"{device.sites[s].short} ({figures.size(n)})" for s, n in pin.by),
            )
            for pin in device.pins
        ),
    )
    asks = _table(
        ("<request", "size", "<served", "<why"),
        ((r.kind, figures.size(r.size), r.answer, r.why) for r in part.requests),
    )
    return _list(words.fragments(device)) + asks + pins


def _ranks(parts: Sequence[Part]) -> str:
    return _table(
        ("<who", "live", "reserved", "<verdict", "<summary"),
        (
            (
                who(part),
                figures.size(part.device.live),
                figures.size(part.device.reserved),
                part.verdict.kind,
                part.verdict.summary,
            )
            for part in parts
        ),
    )
