"""`gpudiag fleet`: nodes, jobs and findings of a whole fleet, from a Prometheus."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import click
from rich.console import RenderableType
from rich.live import Live
from rich.text import Text

from gpudiag.agent import units
from gpudiag.agent.commands import output
from gpudiag.agent.commands.diagnose import CANNOT_TELL, moment, reach, with_access
from gpudiag.agent.commands.fleet_screen import screen
from gpudiag.agent.fleet.model import Fault, NodeState
from gpudiag.agent.fleet.view import Chosen, View, part, view
from gpudiag.agent.history.client import Client
from gpudiag.probes.catalog import SEVERITIES, Severity
from gpudiag.probes.errors import GpudiagError

_UNBOUNDED = 250


@click.command()
@with_access
@click.option("--job", default="", help="Only this training job, its nodes and what is on them.")
@click.option("--node", default="", help="Only this node.")
@click.option("--severity", type=click.Choice(SEVERITIES), default="info", help="The least shown.")
@click.option("--at", help="As it was then: 2026-12-01T03:10, or seconds; now, if left out.")
@click.option(
    "--limit", type=click.IntRange(1), default=20, show_default=True, help="Rows a table."
)
@click.option("--watch", is_flag=True, help="Again and again until Ctrl-C.")
@click.option("--every", default="30s", show_default=True, help="With --watch: how often.")
@click.option("--json", "as_json", is_flag=True, help="One object a line.")
@output.fail_on
@click.pass_context
def command(
    ctx: click.Context,
    /,
    url: str,
    job: str,
    node: str,
    severity: str,
    at: str | None,
    limit: int,
    watch: bool,
    every: str,
    as_json: bool,
    fail_on: str,
    **options: Path | None,
) -> None:
    """Show the nodes, jobs and findings of a fleet, worst first, and which node to drain first.

    It reads what agents tell through a Prometheus; with the recording rules of `gpudiag alerts
    export` a large fleet costs the server little.
    Example: gpudiag fleet --prometheus http://127.0.0.1:9090 --job llama
    """
    client = Client(reach(options, url))
    chosen = Chosen(job, node, cast(Severity, severity))
    asked = moment(at, "--at") if at else None
    try:
        if watch:
            _watch(client, chosen, limit, max(1.0, units.seconds(every)))
        found = _found(client, chosen, asked)
    finally:
        client.close()
    if as_json:
        for line in lines(found):
            click.echo(json.dumps(line))
    else:
        console = output.Screen(highlight=False)
        if not console.is_terminal:
            # No column may fall victim to a guessed width.
            console.width = _UNBOUNDED
        console.print(screen(found, client.url, limit), soft_wrap=True)
    ctx.exit(_exit_code(found, fail_on))


def _found(client: Client, chosen: Chosen, at: float | None) -> View:
    found = view(client, time.time() if at is None else at)
    if not found.nodes:
        raise GpudiagError(
            "no agent is known there at that time: is gpudiag scraped, as deploy/prometheus.yaml"
            " does it? With other exporters alone, ask gpudiag diagnose"
        )
    picked = part(found, chosen)
    if not picked.nodes:
        raise GpudiagError("nothing of it is known there: look without --job and --node")
    return picked


def _watch(client: Client, chosen: Chosen, limit: int, every: float) -> None:
    """Until Ctrl-C; a server that restarts under the watch is waited for."""
    console = output.Screen(highlight=False)
    with Live(console=console, screen=True, auto_refresh=False) as live:
        while True:
            live.update(_screen_or_reason(client, chosen, limit), refresh=True)
            time.sleep(every)


def _screen_or_reason(client: Client, chosen: Chosen, limit: int) -> RenderableType:
    try:
        return screen(_found(client, chosen, None), client.url, limit)
    except GpudiagError as error:
        return Text(str(error), style="yellow")


def lines(found: View) -> Iterator[dict[str, Any]]:
    """Everything as JSON objects: the fleet, then each thing in the order of the tables."""
    whole = found.read
    yield {
        "kind": "fleet",
        "at": found.at,
        "nodes": len(whole.nodes),
        "jobs": len(whole.jobs),
        "gone": list(found.gone),
        "not_recorded": list(whole.plain),
        "cannot_tell": dict(whole.blind),
        "warnings": list(whole.warnings),
        "echoes": found.echoes,
    }
    yield from (one.to_json() for one in found.drains)
    yield from (one.to_json() for one in found.shared)
    yield from (one.to_json() for one in found.losses)
    yield from map(_finding, found.faults)
    yield from map(_node, found.nodes)


def _finding(fault: Fault) -> dict[str, Any]:
    return {
        "kind": "finding",
        "node": fault.node,
        "symptom": fault.symptom,
        "cause": fault.cause,
        "severity": fault.severity,
        "confidence": fault.confidence,
        "subject": dict(fault.subject),
        "summary": fault.summary,
    }


def _node(node: NodeState) -> dict[str, Any]:
    return {
        "kind": "node",
        "node": node.name,
        "up": node.up,
        "gpus": node.gpus,
        "gpus_expected": node.expected,
        "busy": node.busy,
        "labels": dict(node.labels),
    }


def _exit_code(found: View, fail_on: str) -> int:
    firing = [_finding(fault) | {"state": "firing", "explained_by": ""} for fault in found.faults]
    unsure = bool(found.gone or found.read.warnings)
    return output.exit_code(firing, fail_on) or (CANNOT_TELL if unsure else 0)
