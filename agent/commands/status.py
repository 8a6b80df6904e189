"""`gpudiag status`: what the running agent knows, in one screen."""

from __future__ import annotations

import json
from typing import Any

import click
from rich.console import Console

from gpudiag.agent.asking import listed
from gpudiag.agent.commands import output

DEFAULT_URL = "http://127.0.0.1:9440"


@click.command()
@click.option("--agent", "url", default=DEFAULT_URL, show_default=True, help="The agent's address.")
@click.option("--json", "as_json", is_flag=True, help="One finding a line, as the API gives it.")
@output.fail_on
@click.pass_context
def command(ctx: click.Context, url: str, as_json: bool, fail_on: str) -> None:
    """Show the findings, probes and blind spots of the running agent.

    Example: gpudiag status --json | jq -r .summary
    """
    findings = listed(url, "findings")
    if as_json:
        for finding in findings:
            click.echo(json.dumps(finding))
    else:
        _show(findings, listed(url, "probes"))
    ctx.exit(output.exit_code(findings, fail_on))


def _show(findings: list[dict[str, Any]], probes: list[dict[str, Any]]) -> None:
    console = Console(highlight=False)
    firing = [f for f in findings if f["state"] == "firing" and not f["explained_by"]]
    if not firing:
        console.print("Nothing known is wrong.")
    for finding in sorted(firing, key=output.worst_first):
        output.show(console, finding)
    for probe in probes:
        if not (probe["ok"] and probe["available"]):
            console.print(f"blind: {probe['name']}: {probe['detail']}", markup=False, style="dim")
