"""`gpudiag explain`: a log, an OOM message or kernel lines, to causes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.text import Text

from gpudiag.agent import pages
from gpudiag.agent.analysis.causes import Cause, Reading
from gpudiag.agent.commands import explaining, output
from gpudiag.agent.commands.explaining import Given
from gpudiag.probes.catalog import gravity
from gpudiag.probes.errors import UsageError

_STYLES = {"info": "blue", "warning": "yellow", "critical": "bold red"}


@click.command()
@click.argument("files", type=click.Path(path_type=Path), nargs=-1)
@click.option("--json", "as_json", is_flag=True, help="One object: lines read, and causes.")
@output.fail_on
@click.pass_context
def command(ctx: click.Context, *, files: tuple[Path, ...], as_json: bool, fail_on: str) -> None:
    """Say what the logs in FILES give away (- or nothing: standard input; folders: all in them).

    Knows torch's out-of-memory messages of every release, the driver's, the servers' and the
    host's, the kernel's lines about GPUs, memory, links and disks, what torch, NCCL, gloo,
    torchrun, loaders, checkpoints and servers write when they fail, and the dumps of torch's
    flight recorder (one a rank, its number at the end of the name).
    Example: journalctl -k | gpudiag explain
    """
    given = explaining.read(files)
    reading = given.explained()
    if as_json:
        click.echo(json.dumps(_json(reading, given)))
    else:
        _show(reading, given)
    limit = gravity(fail_on)
    grave = [c for c in reading.causes if gravity(c.severity) >= limit]
    ctx.exit(int(any(not c.consequence_of for c in grave)))


def _runbook(cause: Cause) -> str:
    """How to call for the page, its section where it has one; "" where there is no page."""
    if cause.symptom not in pages.names():
        return ""
    try:
        pages.section(cause.symptom, cause.cause)
    except UsageError:
        return f"gpudiag runbook {cause.symptom}"
    return f"gpudiag runbook '{cause.page}'"


def _json(reading: Reading, given: Given) -> dict[str, Any]:
    return {
        "lines": reading.lines,
        "dumps": len(given.dumps),
        "skipped_bytes": given.skipped,
        "causes": [_plain(cause, given) for cause in reading.causes],
    }


def _plain(cause: Cause, given: Given) -> dict[str, Any]:
    name, line = given.where(cause.line)
    told = {**cause.to_json(), "line": line, "runbook": _runbook(cause)}
    return {**told, "file": name} if name else told


def _show(reading: Reading, given: Given) -> None:
    console = output.Screen(highlight=False)
    if given.skipped:
        console.print(f"The first {given.skipped / 2**20:.0f} MiB were left out.", style="dim")
    if not reading.causes:
        dumps = f" and {len(given.dumps)} dumps" if given.dumps else ""
        console.print(
            f"Nothing known in {reading.lines} lines{dumps}: no out-of-memory message, no kernel"
            " fault, no failure that programs are known to write.",
            soft_wrap=True,
        )
    for cause in reading.causes:
        _show_one(console, cause, given)


def _show_one(console: Console, cause: Cause, given: Given) -> None:
    head = Text(cause.severity.upper(), style=_STYLES[cause.severity])
    head.append(f"  {cause.symptom or cause.cause}", style="bold")
    times = f", {cause.times} times" if cause.times > 1 else ""
    name, line = given.where(cause.line)
    place = (f"{name}:{line}" if name else f"line {line}") if line else ""
    head.append(f"  {', '.join(filter(None, (cause.who, place)))}{times}", style="dim")
    console.print(head, soft_wrap=True)
    lines = [cause.summary, f"cause: {cause.cause} ({cause.confidence:.0%} sure)"]
    if cause.consequence_of:
        lines.append(f"follows from: {cause.consequence_of}")
    lines += [f"- {fact}" for fact in cause.evidence]
    lines += [f"not {name}: {why}" for name, why in cause.rivals]
    lines += [f"would settle it: {what}" for what in cause.missing]
    lines += [f"next: {cause.todo}"] if cause.todo else []
    runbook = _runbook(cause)
    lines += [f"runbook: {runbook}"] if runbook else []
    for text in lines:
        console.print(Text(f"  {text}"), soft_wrap=True)
    console.print()
