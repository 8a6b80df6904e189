"""`gpudiag replay`: what the rules say of a recorded incident."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click
from msgspec import structs
from rich.console import Console
from rich.text import Text

from gpudiag.agent import replay_check
from gpudiag.agent.acting.planned import plain
from gpudiag.agent.actions.contract import Plan
from gpudiag.agent.actions.rehearsal import Rehearsal
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

    A finding is shown as it last stood while firing; with --json, once more where it was resolved;
    and with it the first action that a dry run would have planned for it.
    With --check only the comparison decides the exit code.
    Example: gpudiag replay incident.yaml --check
    """
    timeline = load(file)
    rehearsal = Rehearsal()
    run = replay(timeline, fresh_engine(), rehearsal.turn)
    planned = _Planned(timeline.start, rehearsal.plans)
    findings = [_told(finding, planned) for finding in run.findings()]
    if as_json:
        for line in [*findings, *(blind.to_json() for blind in run.blind)]:
            click.echo(json.dumps(line))
    else:
        _show(output.Screen(highlight=False), run, planned)
    if check:
        differences = replay_check.check(timeline.expectations, run)
        for difference in differences:
            click.echo(f"{file}: {difference}", err=True)
        ctx.exit(int(bool(differences)))
    ctx.exit(output.exit_code(findings, fail_on) or (CANNOT_TELL if run.blind else 0))


class _Planned:
    """Plans by the one time that their finding fired, times in seconds from the start."""

    def __init__(self, start: float, plans: Iterable[Plan]) -> None:
        moved = [structs.replace(p, made_at=round(p.made_at - start, 3)) for p in plans]
        self._plans = moved

    def of(self, finding: Finding) -> list[Plan]:
        since, until = finding.raised_at or 0.0, finding.resolved_at or math.inf
        mine = (plan for plan in self._plans if plan.finding == finding.id)
        return [plan for plan in mine if since <= plan.made_at <= until]


def _told(finding: Finding, planned: _Planned) -> dict[str, Any]:
    plans = [plain(plan) for plan in planned.of(finding)]
    return {**finding.to_json(), "plans": plans}


def _show(console: Console, run: Run, planned: _Planned) -> None:
    resolved = {(f.id, f.raised_at): f for f in run.findings() if f.state == "resolved"}
    firing = [f for f in run.findings() if f.state == "firing"]
    if not firing:
        console.print("Nothing known was wrong.")
    for finding in firing:
        console.print(Text(_when(finding, resolved.get((finding.id, finding.raised_at)))))
        output.show(console, finding.to_json())
        for plan in planned.of(finding):
            console.print(Text(f"  {_plan(plan)}"), soft_wrap=True)
        console.print()
    for blind in run.blind:
        missing = "; ".join(blind.missing)
        console.print(Text(f"cannot tell {blind.symptom}: {missing}", style="dim"), soft_wrap=True)


def _plan(plan: Plan) -> str:
    promise = spell_seconds(plan.promise)
    when = spell_seconds(plan.made_at)
    return f"dry-run: {plan.action} at {plan.target}, planned at {when}, to help within {promise}"


def _when(finding: Finding, resolved: Finding | None) -> str:
    told = [f"raised at {spell_seconds(finding.raised_at or 0.0)}"]
    if resolved and resolved.resolved_at is not None:
        told.append(f"resolved at {spell_seconds(resolved.resolved_at)} ({resolved.reason})")
    if finding.explained_by:
        told.append(f"explained by {finding.explained_by}")
    return ", ".join(told)
