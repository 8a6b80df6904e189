"""The report on a terminal: one screen with the verdict first, the details after."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from gpudiag.agent import pages
from gpudiag.agent.analysis.memory import figures
from gpudiag.agent.analysis.memory.outlook import Outlook
from gpudiag.agent.analysis.memory.report import Part, Report
from gpudiag.agent.analysis.memory.ruling import Verdict
from gpudiag.agent.commands.leaks import tables
from gpudiag.agent.units import spell_seconds

_STYLES = {"critical": "bold red", "warning": "bold yellow", "info": "blue", "": "bold green"}
SAME = 3
"""Further parts with another verdict that are spelled out on the first screen."""


def show(console: Console, report: Report, top: int) -> None:
    """Print the whole report; `top` rows of each table."""
    first = report.parts[0]
    _verdict(console, first)
    others = [p for p in report.parts[1:] if p.verdict.kind != first.verdict.kind]
    for part in others[:SAME]:
        _line(console, f"{who(part)}: {part.verdict.kind}. {part.verdict.summary}")
    if len(report.parts) > 1:
        console.print(tables.ranks(report.parts, top))
    _details(console, first, top)


def who(part: Part) -> str:
    """The part's name: `rank 3, device 0`."""
    rank = f"rank {part.rank}, " if part.rank is not None else ""
    return f"{rank}device {part.device.device}"


def _verdict(console: Console, part: Part) -> None:
    said = part.verdict
    head = Text(said.kind.upper(), style=_STYLES[said.severity])
    sure = f"{said.confidence:.0%} sure, " if said.confidence else ""
    head.append(f"  {sure}{who(part)}, {len(part.files)} snapshot(s)", style="dim")
    console.print(head)
    _line(console, said.summary)
    if part.outlook:
        _line(console, ends(part.outlook))
    console.print(Text("how we know", style="bold"))
    for fact in said.evidence:
        _line(console, f"- {fact}")
    for rival in said.rivals:
        _line(console, f"- not {rival.cause}: {rival.why_not}", "dim")
    for note in part.notes[:4]:
        _line(console, f"- odd in the file: {note}", "dim")
    console.print(Text("next", style="bold"))
    for step in said.next:
        _line(console, f"- {step}")
    for missing in said.missing:
        _line(console, f"- would settle it: {missing}")
    if page := runbook(said):
        _line(console, f"- cause {said.cause or 'open'}: gpudiag runbook '{page}'")
    console.print()


def runbook(said: Verdict) -> str:
    """What `gpudiag runbook` takes for this verdict; "" where there is no page yet."""
    return said.runbook if said.symptom in pages.names() else ""


def ends(outlook: Outlook) -> str:
    """When memory is gone, with the band of the rate."""
    late = f"{outlook.latest:,.0f}" if outlook.latest is not None else "no limit"
    time = ""
    if outlook.seconds is not None:
        time = f", about {spell_seconds(max(60, round(outlook.seconds / 60) * 60))}"
    left = figures.size(outlook.headroom)
    return (
        f"{left} are left: gone after {outlook.after:,.0f} {outlook.unit}s"
        f" ({outlook.soonest:,.0f} to {late}){time}."
    )


def _details(console: Console, part: Part, top: int) -> None:
    sections: Sequence[tuple[str, object]] = (
        ("Growth per call site", tables.growth(part, top)),
        ("What is live", tables.composition(part.device)),
        ("Call sites that hold most", tables.holders(part.device, top)),
        ("When live blocks were made", tables.ages(part.device)),
        ("Free memory by pool", tables.pools(part.device, top)),
        ("Could it be served", tables.requests(part)),
        ("Segments held by few live blocks", tables.pins(part.device, top)),
    )
    for title, table in sections:
        if table is not None:
            console.print(Text(title, style="bold"))
            console.print(Padding(table, (0, 0, 1, 2)))  # type: ignore[arg-type]


def _line(console: Console, text: str, style: str = "") -> None:
    console.print(Text("  " + text, style=style), soft_wrap=True)
