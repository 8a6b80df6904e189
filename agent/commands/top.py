"""`gpudiag top`: ranks beside their GPUs, live in the terminal."""

from __future__ import annotations

import time
from datetime import datetime

import click
from rich.console import Group, RenderableType
from rich.live import Live
from rich.text import Text

from gpudiag.agent import rank_table
from gpudiag.agent.asking import listed
from gpudiag.agent.commands import options, output
from gpudiag.probes.errors import GpudiagError

REFRESH_SECONDS = 1.0

# Where the output is no terminal, no column may fall victim to a guessed width.
UNBOUNDED = 250


@click.command()
@options.agent
@click.option("--once", is_flag=True, help="Show it once and end.")
def command(url: str, once: bool) -> None:
    """Watch the ranks of training jobs beside their GPUs; Ctrl-C ends it.

    Example: gpudiag top --once
    """
    console = output.Screen(highlight=False)
    if once:
        if not console.is_terminal:
            console.width = UNBOUNDED
        console.print(_screen(url, console.width), soft_wrap=True)
        return
    with Live(console=console, screen=True, auto_refresh=False) as live:
        while True:
            live.update(_screen_or_reason(url, console.width), refresh=True)
            time.sleep(REFRESH_SECONDS)


def _screen(url: str, width: int) -> RenderableType:
    found = rank_table.rows(listed(url, "series"))
    firing = [f for f in listed(url, "findings") if f["state"] == "firing"]
    head = Text(f"{datetime.now():%H:%M:%S}  {url}", style="dim")
    body = rank_table.table(found, width) if found else Text("No training rank and no GPU is seen.")
    return Group(head, body, Text(), *map(_line, sorted(firing, key=output.worst_first)))


def _screen_or_reason(url: str, width: int) -> RenderableType:
    """An agent that restarts under the watch is waited for."""
    try:
        return _screen(url, width)
    except GpudiagError as error:
        return Text(str(error), style="yellow")


def _line(finding: dict[str, object]) -> Text:
    folded = bool(finding["explained_by"])
    text = f"{'  ' if folded else ''}{finding['symptom']}: {finding['summary']}"
    return Text(text, style="dim" if folded else "yellow")
