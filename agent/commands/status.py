"""`gpudiag status`: what the running agent knows, in one screen."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import click
from rich.console import Console
from rich.text import Text

from gpudiag.agent import units
from gpudiag.agent.asking import told
from gpudiag.agent.commands import options, output
from gpudiag.probes.errors import UsageError


@click.command()
@options.agent
@click.option("--json", "as_json", is_flag=True, help="One finding a line, as the API gives it.")
@click.option("--since", help="What fired within this time, such as 12h; kept for 30 days.")
@click.option("--at", help="What was firing then: 2026-12-01T03:10, local time unless it says Z.")
@output.fail_on
@click.pass_context
def command(
    ctx: click.Context, url: str, as_json: bool, since: str | None, at: str | None, fail_on: str
) -> None:
    """Show the findings, probes and blind spots of the running agent.

    Example: gpudiag status --since 12h
    """
    whole, findings = told(url, "findings", _query(since, at))
    if as_json:
        for finding in findings:
            click.echo(json.dumps(finding))
    else:
        about, probes = told(url, "probes")
        _show(
            output.Screen(highlight=False),
            about["agent"],
            whole,
            findings,
            probes,
            bool(since or at),
        )
    ctx.exit(output.exit_code(findings, fail_on))


def _query(since: str | None, at: str | None) -> str:
    if since and at:
        raise UsageError("--since and --at are two questions: ask one")
    if since:
        return f"?since={time.time() - units.seconds(since)}"
    return f"?since={_moment(at)}&until={_moment(at)}" if at else ""


def _moment(text: str) -> float:
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError as error:
        raise UsageError(f"--at {text!r} is not a time: write 2026-12-01T03:10") from error


def _show(
    console: Console,
    agent: Mapping[str, Any],
    whole: Mapping[str, Any],
    findings: Sequence[Mapping[str, Any]],
    probes: Sequence[Mapping[str, Any]],
    past: bool,
) -> None:
    now = float(whole["now"])
    console.print(_header(agent, now), style="bold")
    if agent["replay"]:
        console.print("A recording played back, not what this machine does now.", style="yellow")
    shown = [f for f in findings if past or f["state"] == "firing"]
    if not shown:
        console.print("Nothing fired then." if past else "Nothing known is wrong.")
    output.show_all(console, shown, lambda finding: _when(finding, now))
    for unknown in whole["unknown"]:
        missing = "; ".join(unknown["missing"])
        console.print(Text(f"cannot tell: {unknown['symptom']}: {missing}", style="dim"))
    for probe in probes:
        if not (probe["ok"] and probe["available"]):
            console.print(Text(f"blind: {probe['name']}: {probe['detail']}", style="dim"))


def _header(agent: Mapping[str, Any], now: float) -> str:
    job = f", job {agent['job']}" if agent["job"] else ""
    return f"gpudiag on {agent['node']}{job}, {_clock(now)}, actions: {agent['mode']}"


def _when(finding: Mapping[str, Any], now: float) -> str:
    age = units.spell_seconds(round(now - finding["since"]))
    began = f"since {_clock(finding['since'])} ({age} ago)"
    if finding["resolved_at"] is not None:
        return f"{began}, until {_clock(finding['resolved_at'])}: {finding['reason']}"
    stale = (
        ", no fresh data since " + _clock(finding["stale_since"]) if finding["stale_since"] else ""
    )
    return began + stale


def _clock(moment: float) -> str:
    """UTC; what lies before 1973 is a time within a recording that starts at 0."""
    if moment < 1e8:
        return f"{units.spell_seconds(round(moment))} into the recording"
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
