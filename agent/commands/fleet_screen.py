"""A fleet on a terminal: what to do first, what is shared, jobs by loss, nodes and findings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from gpudiag.agent.fleet.losses import Loss
from gpudiag.agent.fleet.model import Fault
from gpudiag.agent.fleet.view import View
from gpudiag.agent.history.noticed import utc
from gpudiag.probes.catalog import SEVERITIES

_STYLES = {"info": "blue", "warning": "yellow", "critical": "bold red"}
_DRAINS = 3


def screen(found: View, url: str, limit: int) -> RenderableType:
    """All of it; tables end after `limit` rows and say how many more there are."""
    return Group(
        *_head(found, url),
        *_first(found),
        *_jobs(found.losses, limit),
        *_findings(found.faults, limit),
        *_nodes(found, limit),
    )


def _head(found: View, url: str) -> Iterator[Text]:
    counts = {s: sum(fault.severity == s for fault in found.faults) for s in reversed(SEVERITIES)}
    said = ", ".join(f"{count} {severity}" for severity, count in counts.items() if count)
    gpus = sum(node.gpus for node in found.nodes)
    missing = sum(max(node.expected - node.gpus, 0) for node in found.nodes)
    lacking = f" ({missing} missing)" if missing else ""
    yield Text(f"{utc(found.at)}  {url}", style="dim")
    yield Text(
        f"{len(found.nodes)} nodes, {gpus} GPUs{lacking}, {len(found.read.jobs)} jobs;"
        f" findings: {said or 'none'}"
    )
    if found.gone:
        names = ", ".join(found.gone[:_DRAINS])
        yield Text(f"no agent any more on {len(found.gone)} nodes: {names}", style="yellow")
    if found.echoes:
        yield Text(f"{found.echoes} findings are echoes of others and left out", style="dim")
    if found.read.plain:
        yield Text(
            f"no recording rules for {len(found.read.plain)} figures, asked of every GPU instead:"
            " load those of `gpudiag alerts export`",
            style="dim",
        )
    if found.read.blind:
        told = ", ".join(f"{name} on {count}" for name, count in found.read.blind.items())
        yield Text(f"cannot tell: {told} nodes", style="dim")
    for warning in found.read.warnings:
        yield Text(f"the server warns: {warning}", style="yellow")


def _first(found: View) -> Iterator[Text]:
    for one in found.shared:
        yield Text(f"\nshared: {one.summary}", style="bold")
    for number, drain in enumerate(found.drains[:_DRAINS], start=1):
        gain = f"gives {drain.gains:.1f} GPUs back, idles {drain.costs}"
        yield Text(f"\ndrain {number}: {drain.node} ({gain})", style="bold")
        for reason in drain.why:
            yield Text(f"  {reason}")
        if drain.first:
            yield Text(f"  first look at {drain.first}", style="yellow")


def _jobs(losses: Sequence[Loss], limit: int) -> Iterator[RenderableType]:
    if not losses:
        return
    table = _table("job", "ranks", "lost", "GPUs lost", "held up by", "findings")
    for loss in losses[:limit]:
        _row(
            table,
            loss.job,
            str(loss.ranks),
            f"{loss.share:.0%}",
            f"{loss.gpus:.1f}",
            ", ".join(loss.blamed),
            ", ".join(dict.fromkeys(fault.symptom for fault in loss.faults)),
        )
    yield from _shown(table, len(losses) - limit)


def _findings(faults: Sequence[Fault], limit: int) -> Iterator[RenderableType]:
    if not faults:
        return
    table = _table("", "finding", "cause", "sure", "node", "subject")
    for fault in faults[:limit]:
        _row(
            table,
            Text(fault.severity.upper(), style=_STYLES[fault.severity]),
            fault.symptom,
            fault.cause,
            f"{fault.confidence:.0%}",
            fault.node,
            ", ".join(f"{key}={value}" for key, value in fault.subject.items()),
        )
    yield from _shown(table, len(faults) - limit)


def _nodes(found: View, limit: int) -> Iterator[RenderableType]:
    table = _table("node", "GPUs", "busy", "findings", "jobs", "agent")
    for node in found.nodes[:limit]:
        mine = [fault.symptom for fault in found.faults if fault.node == node.name]
        jobs = [job.name for job in found.read.jobs.values() if node.name in job.nodes]
        _row(
            table,
            node.name,
            f"{node.gpus}/{node.expected}" if node.expected else str(node.gpus),
            "" if node.busy is None else f"{node.busy:.0%}",
            ", ".join(dict.fromkeys(mine)),
            ", ".join(jobs),
            "" if node.up else "gone",
        )
    yield from _shown(table, len(found.nodes) - limit)


def _row(table: Table, *cells: str | Text) -> None:
    """Cells as they are: rich would read markup into plain text."""
    table.add_row(*(cell if isinstance(cell, Text) else Text(cell) for cell in cells))


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def _shown(table: Table, more: int) -> Iterator[RenderableType]:
    yield Text()
    yield table
    if more > 0:
        yield Text(f"and {more} more: --limit shows them", style="dim")
