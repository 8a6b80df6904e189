"""`gpudiag actions`: what the agent did or would do, and what a person says to it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

import click
from rich.table import Table

from gpudiag.agent import asking
from gpudiag.agent.commands import options, output
from gpudiag.probes.errors import UsageError


@click.group()
def command() -> None:
    """List, approve or deny actions; reset the breaker.

    Example: gpudiag actions list
    """


@command.command("list")
@options.agent
@click.option("--json", "as_json", is_flag=True, help="One action a line, as the API gives it.")
def listed(url: str, as_json: bool) -> None:
    """Show what was done, would be done, or waits for a person, newest first."""
    whole, actions = asking.told(url, "actions")
    if as_json:
        for action in actions:
            click.echo(json.dumps(action))
        return
    screen = output.Screen(highlight=False)
    screen.print(_head(whole))
    if actions:
        screen.print(_table(actions))


@command.command()
@click.argument("plan")
@options.agent
@options.token_file
def approve(plan: str, url: str, token_file: Path | None) -> None:
    """Say yes to the plan PLAN, which waits.

    Example: gpudiag actions approve 3f2a9c0d11e4b7aa --token-file /etc/gpudiag/token
    """
    _change(
        url, f"/api/v1/actions/{quote(plan, safe='')}/approve", token_file, f"no plan {plan} waits"
    )


@command.command()
@click.argument("plan")
@options.agent
@options.token_file
def deny(plan: str, url: str, token_file: Path | None) -> None:
    """Say no to the plan PLAN: its finding is left to people."""
    _change(
        url, f"/api/v1/actions/{quote(plan, safe='')}/deny", token_file, f"no plan {plan} waits"
    )


@command.command("reset-breaker")
@options.agent
@options.token_file
def reset_breaker(url: str, token_file: Path | None) -> None:
    """Let acting go on after too much of it did not help; look at `list` first."""
    _change(url, "/api/v1/breaker/reset", token_file, "the breaker is closed")


def _change(url: str, path: str, token_file: Path | None, nothing: str) -> None:
    headers = asking.signed(token_file)
    answer = asking.change(url, path, headers)
    if not answer.get("done"):
        raise UsageError(nothing)
    click.echo("done")


def _head(whole: Mapping[str, Any]) -> str:
    head = f"mode {whole['mode']}"
    if "budget_remaining" in whole:
        head += f", {whole['budget_remaining']} actions left in the budget"
    if whole.get("breaker"):
        head += f", breaker open: {whole['breaker']}"
    return head


def _table(actions: list[dict[str, Any]]) -> Table:
    table = Table(box=None, pad_edge=False)
    for name in ("plan", "when", "state", "action", "target", "cause", "detail"):
        table.add_column(name, overflow="fold")
    for action in actions:
        plan = action["plan"]
        when = datetime.fromtimestamp(action["at"], UTC).strftime("%m-%d %H:%M:%SZ")
        cause = f"{plan['symptom']}/{plan['cause']}"
        detail = action["detail"] or plan["reason"]
        shown = (plan["id"], when, action["state"], plan["action"], plan["target"], cause, detail)
        table.add_row(*shown)
    return table
