"""`gpudiag explain`: a log, an OOM message or kernel lines, to causes."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, BinaryIO

import click
from rich.console import Console
from rich.text import Text

from gpudiag.agent import pages
from gpudiag.agent.analysis.causes import Cause, Reading
from gpudiag.agent.analysis.log_causes import explain
from gpudiag.agent.commands import output
from gpudiag.probes.errors import GpudiagError, UsageError

MAX_BYTES = 64 << 20
"""Of a larger text the end is read: what ended the job stands there."""

_STYLES = {"info": "blue", "warning": "yellow", "critical": "bold red"}


@click.command()
@click.argument("file", type=click.Path(path_type=Path), default="-")
@click.option("--json", "as_json", is_flag=True, help="One object: lines read, and causes.")
@output.fail_on
@click.pass_context
def command(ctx: click.Context, *, file: Path, as_json: bool, fail_on: str) -> None:
    """Say what the log in FILE gives away (- or nothing: standard input).

    Knows torch's out-of-memory messages of every release, the driver's, the servers' and the
    host's, and the kernel's lines about GPUs, memory, links and disks.
    Example: journalctl -k | gpudiag explain
    """
    text, skipped = _read(file)
    reading = explain(text)
    if as_json:
        click.echo(json.dumps(_json(reading, skipped)))
    else:
        _show(reading, skipped)
    limit = output.SEVERITIES.index(fail_on)
    grave = [c for c in reading.causes if output.SEVERITIES.index(c.severity) >= limit]
    ctx.exit(int(any(not c.consequence_of for c in grave)))


def _read(file: Path) -> tuple[str, int]:
    """The text, and how many bytes before it were left out."""
    if str(file) != "-":
        try:
            with file.open("rb") as log:
                return _text(log)
        except OSError as error:
            raise UsageError(f"cannot read {file}: {error.strerror}") from error
    if sys.stdin.isatty():
        raise UsageError("nothing to read: name a file, or pipe a log into `gpudiag explain`")
    return _text(sys.stdin.buffer)


def _text(log: BinaryIO) -> tuple[str, int]:
    """The last `MAX_BYTES` of a file or a pipe, however long that is."""
    skipped = 0
    if log.seekable():
        skipped = max(log.seek(0, 2) - MAX_BYTES, 0)
        log.seek(skipped)
    kept = bytearray()
    while chunk := log.read(1 << 20):
        kept += chunk
        over = max(len(kept) - MAX_BYTES, 0)
        skipped += over
        del kept[:over]
    text = kept.decode("utf-8", "replace")
    if not text.strip():
        raise GpudiagError("no text in it: give the log from before the failure to its end")
    return text, skipped


def _runbook(cause: Cause) -> str:
    """How to call for the page, its section where it has one; "" where there is no page."""
    if cause.symptom not in pages.names():
        return ""
    try:
        pages.section(cause.symptom, cause.cause)
    except UsageError:
        return f"gpudiag runbook {cause.symptom}"
    return f"gpudiag runbook '{cause.page}'"


def _json(reading: Reading, skipped: int) -> dict[str, Any]:
    return {
        "lines": reading.lines,
        "skipped_bytes": skipped,
        "causes": [{**c.to_json(), "runbook": _runbook(c)} for c in reading.causes],
    }


def _show(reading: Reading, skipped: int) -> None:
    console = output.Screen(highlight=False)
    if skipped:
        console.print(f"The first {skipped / 2**20:.0f} MiB were left out.", style="dim")
    if not reading.causes:
        console.print(
            f"Nothing known in {reading.lines} lines: no out-of-memory message, no kernel fault.",
            soft_wrap=True,
        )
    for cause in reading.causes:
        _show_one(console, cause)


def _show_one(console: Console, cause: Cause) -> None:
    head = Text(cause.severity.upper(), style=_STYLES[cause.severity])
    head.append(f"  {cause.symptom or cause.cause}", style="bold")
    times = f", {cause.times} times" if cause.times > 1 else ""
    head.append(f"  {cause.who + ', ' if cause.who else ''}line {cause.line}{times}", style="dim")
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
    for line in lines:
        console.print(Text(f"  {line}"), soft_wrap=True)
    console.print()
