"""`gpudiag replay`: what the rules say of a recorded incident."""

from __future__ import annotations

import json
from pathlib import Path

import click
from rich.console import Console
from rich.text import Text

from gpudiag.agent import replay_check
from gpudiag.agent.commands import output
from gpudiag.agent.findings.finding import Finding
from gpudiag.agent.replay import Run, fresh_engine, load, replay
from gpudiag.agent.units import spell_seconds

CANNOT_TELL = 3


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="One finding a line; times from the start.")
@click.option("--check", is_flag=True, help="Exit 1 where it differs from its expect and quiet.")
@output.fail_on
@click.pass_context
def command(ctx: click.Context, file: Path, as_json: bool, check: bool, fail_on: str) -> None:
    """Run the rules over FILE, an incident file (.yaml) or a recording (folder or .tar.gz).

    A finding is shown as it last stood while firing; with --json, once more where it was resolved.
    With --check only the comparison decides the exit code.
    Example: gpudiag replay incident.yaml --check
    """
    timeline = load(file)
    run = replay(timeline, fresh_engine())
    findings = [finding.to_json() for finding in run.findings()]
    if as_json:
        for line in [*findings, *(blind.to_json() for blind in run.blind)]:
            click.echo(json.dumps(line))
    else:
        _show(output.Screen(highlight=False), run)
    if check:
        differences = replay_check.check(timeline.expectations, run)
        for difference in differences:
            click.echo(f"{file}: {difference}", err=True)
        ctx.exit(int(bool(differences)))
    ctx.exit(output.exit_code(findings, fail_on) or (CANNOT_TELL if run.blind else 0))


def _show(console: Console, run: Run) -> None:
    resolved = {(f.id, f.raised_at): f for f in run.findings() if f.state == "resolved"}
    firing = [f for f in run.findings() if f.state == "firing"]
    if not firing:
        console.print("Nothing known was wrong.")
    for finding in firing:
        console.print(Text(_when(finding, resolved.get((finding.id, finding.raised_at)))))
        output.show(console, finding.to_json())
        console.print()
    for blind in run.blind:
        missing = "; ".join(blind.missing)
        console.print(Text(f"cannot tell {blind.symptom}: {missing}", style="dim"), soft_wrap=True)


def _when(finding: Finding, resolved: Finding | None) -> str:
    told = [f"raised at {spell_seconds(finding.raised_at or 0.0)}"]
    if resolved and resolved.resolved_at is not None:
        told.append(f"resolved at {spell_seconds(resolved.resolved_at)} ({resolved.reason})")
    if finding.explained_by:
        told.append(f"explained by {finding.explained_by}")
    return ", ".join(told)
