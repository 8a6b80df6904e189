"""`gpudiag findings`: the ids of what fired, and what a person says of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import click
from rich.console import Console
from rich.text import Text

from gpudiag.agent import asking, files, units
from gpudiag.agent.commands import options, output
from gpudiag.agent.exporters import words
from gpudiag.probes.errors import UsageError


@click.group(invoke_without_command=True)
@options.agent
@click.option("--json", "as_json", is_flag=True, help="One finding a line, as the API gives it.")
@click.pass_context
def command(ctx: click.Context, url: str, as_json: bool) -> None:
    """List findings with their ids; say that you are on one, or whether it was right.

    Example: gpudiag findings
    """
    if ctx.invoked_subcommand:
        return
    found = asking.listed(url, "findings")
    if as_json:
        for finding in found:
            click.echo(json.dumps(finding))
        return
    console = output.Screen(highlight=False)
    for finding in sorted(found, key=_first):
        _show(console, finding)
    if not found:
        console.print("Nothing fires, and nothing did in the last day.")


@command.command()
@click.argument("finding")
@click.option("--for", "span", required=True, help="How long you are on it, such as 2h.")
@click.option("--reason", required=True, help="What you do, for whoever looks next.")
@options.agent
@options.token_file
def ack(finding: str, span: str, reason: str, url: str, token_file: Path | None) -> None:
    """Say that you are on FINDING, an id of the list: it goes on, and the agent does not act.

    Example: gpudiag findings ack 'gpu-xid{uuid=GPU-1}' --for 2h --reason 'draining the node'
    """
    body = {"seconds": units.seconds(span), "reason": reason}
    _tell(url, finding, "acknowledge", token_file, body)
    click.echo("done")


@command.command()
@click.argument("finding")
@options.agent
@options.token_file
def withdraw(finding: str, url: str, token_file: Path | None) -> None:
    """Say that nobody is on FINDING any more.

    Example: gpudiag findings withdraw 'gpu-xid{uuid=GPU-1}'
    """
    _tell(url, finding, "withdraw", token_file, None)
    click.echo("done")


@command.command()
@click.argument("finding")
@click.argument("said", type=click.Choice(["right", "wrong"]))
@click.argument("cause", default="")
@click.option("--out", type=click.Path(path_type=Path), help="Write the draft here too.")
@options.agent
@options.token_file
def verdict(
    finding: str, said: str, cause: str, out: Path | None, url: str, token_file: Path | None
) -> None:
    """Say whether FINDING was right, or wrong and, where known, which CAUSE it had.

    The verdict stays with the finding, and the samples kept around it become a draft incident
    file, in which a replay must give what you say. Read it before you hand it on: it holds lines
    of logs. Example: gpudiag findings verdict 'straggler{job=llama,rank=3}' wrong host-contention
    """
    told = _tell(url, finding, "verdict", token_file, {"right": said == "right", "cause": cause})
    if why := told["why"]:
        click.echo(f"kept; {why}")
        return
    if out is not None:
        files.replace(out, told["text"].encode())
    click.echo(f"kept; a draft to finish: gpudiag replay {out or told['draft']} --check")


def _tell(
    url: str, finding: str, what: str, token_file: Path | None, body: Mapping[str, Any] | None
) -> dict[str, Any]:
    headers = asking.signed(token_file)
    path = f"/api/v1/findings/{quote(finding, safe='')}/{what}"
    told = asking.change(url, path, headers, json.dumps(body).encode() if body else b"")
    if not told.get("done"):
        nobody = "nobody is on it" if what == "withdraw" else "`gpudiag findings` lists the ids"
        raise UsageError(f"no such finding as {finding!r}: {nobody}")
    return told


def _show(console: Console, finding: Mapping[str, Any]) -> None:
    # On a line of its own and never folded: it is there to be copied.
    console.print(Text(finding["id"], style="bold"), soft_wrap=True)
    since = words.clock(finding["since"])
    head = f"{finding['state']}, {finding['severity']}, {finding['cause']}, since {since}"
    for line in [head, *words.remarks(finding)]:
        console.print(Text(f"  {line}"), soft_wrap=True)


def _first(finding: Mapping[str, Any]) -> tuple[bool, tuple[int, float]]:
    return finding["state"] == "resolved", output.worst_first(finding)
