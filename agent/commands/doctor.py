"""`gpudiag doctor`: one look at this node, without a running agent."""

from __future__ import annotations

import itertools
import json
import logging
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import click
from rich.console import Console
from rich.text import Text

from gpudiag.agent import units
from gpudiag.agent.commands import doctor_files, output
from gpudiag.agent.doctor.examine import Examination, examine_here
from gpudiag.agent.doctor.report import WORDS, Line, State, exit_code, rank
from gpudiag.probes.catalog import Severity
from gpudiag.probes.errors import GpudiagError

_STYLES: dict[State, str] = {
    "ok": "green",
    "note": "blue",
    "warning": "yellow",
    "critical": "bold red",
    "unknown": "magenta",
    "absent": "dim",
}
_WIDTH = 11


@click.command()
@click.option("--config", "path", type=click.Path(path_type=Path), envvar="GPUDIAG_CONFIG")
@click.option("--json", "as_json", is_flag=True, help="One object: lines and findings.")
@click.option("--for", "span", default="6s", show_default=True, help="How long to look.")
@click.option(
    "--deadline", default="20s", show_default=True, help="How long to wait for a slow probe."
)
@click.option("--save", type=click.Path(path_type=Path), help="Write the environment's manifest.")
@click.option("--compare", type=click.Path(path_type=Path), help="Compare with such a manifest.")
@click.option("--python", default="", help="For both: the interpreter whose packages count.")
@click.option("--weights", multiple=True, type=click.Path(path_type=Path), help="Check a folder.")
@click.option("--sha256", is_flag=True, help="With --weights: read each file with a known digest.")
@output.fail_on
@click.pass_context
def command(
    ctx: click.Context,
    *,
    save: Path | None,
    compare: Path | None,
    python: str,
    weights: tuple[Path, ...],
    sha256: bool,
    path: Path | None,
    as_json: bool,
    span: str,
    deadline: str,
    fail_on: Severity,
) -> None:
    """Look once at this node: driver, GPUs, kernel log, host, network, environment, rights.

    Runs the agent's own probes and rules for a few seconds; no agent need be running. A driver
    that hangs is told, not waited for. Example: gpudiag doctor --json | jq -r '.lines[].seen'

    With --save, --compare or --weights it looks at files only: what the job runs in, and whether
    its weights are whole.
    """
    asked = _files(save, compare, python, weights, sha256=sha256)
    if asked:
        _tell_files(asked, as_json=as_json)
        ctx.exit(exit_code(asked, [], fail_on))
    logging.basicConfig(level=logging.ERROR)
    found = examine_here(path, seconds=units.seconds(span), deadline=units.seconds(deadline))
    if as_json:
        click.echo(json.dumps(found.to_json()))
    else:
        _show(found)
    if found.nothing:
        raise GpudiagError("no probe could read anything here: see the lines above for each reason")
    ctx.exit(exit_code(found.lines, found.findings, fail_on))


def _show(found: Examination) -> None:
    console = output.Screen(highlight=False)
    for area, lines in itertools.groupby(found.lines, lambda line: line.area):
        console.print(Text(area.upper(), style="bold"))
        _show_area(console, list(lines))
        console.print()
    firing = [f.to_json() for f in found.findings if f.state == "firing" and not f.explained_by]
    console.print(Text(_headline(found, bool(firing)), style="bold"), soft_wrap=True)
    for finding in sorted(firing, key=output.worst_first):
        output.show(console, finding)
        console.print()


def _headline(found: Examination, firing: bool) -> str:
    if firing:
        return "FINDINGS"
    if any(rank(line.state) >= rank("warning") for line in found.lines):
        return "See the lines above that say warning or critical."
    return (
        f"Nothing known is wrong, as far as {found.seconds:.0f} s tell;"
        " what takes longer to show, a running agent sees."
    )


def _show_area(console: Console, lines: Sequence[Line]) -> None:
    for line in lines:
        word = WORDS.get(line.state, line.state)
        text = Text("  ").append(f"{word:{_WIDTH}} ", style=_STYLES[line.state])
        text.append(line.check, style="bold").append(f": {line.seen}")
        console.print(text, soft_wrap=True)
        if line.todo:
            console.print(Text(f"  {'':{_WIDTH}} -> {line.todo}", style="dim"), soft_wrap=True)


def _files(
    save: Path | None,
    compare: Path | None,
    python: str,
    weights: Sequence[Path],
    *,
    sha256: bool,
) -> list[Line]:
    """The lines about files that were asked for; none where the node itself is meant."""
    lines = doctor_files.compare(compare, os.environ, python) if compare else []
    if save:
        lines.append(doctor_files.save(save, os.environ, python))
    return lines + doctor_files.check(weights, sha256=sha256, shown=sys.stderr.isatty())


def _tell_files(lines: Sequence[Line], *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps({"lines": [asdict(line) for line in lines]}))
    else:
        _show_area(output.Screen(highlight=False), lines)
