"""What commands share when they show findings: order, exit code, and the lines on a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import click
from rich.console import Console
from rich.text import Text

SEVERITIES = ("info", "warning", "critical")
_STYLES = {"info": "blue", "warning": "yellow", "critical": "bold red"}

fail_on = click.option(
    "--fail-on",
    type=click.Choice(SEVERITIES),
    default="warning",
    show_default=True,
    help="Exit 1 when a finding of this severity or worse is firing.",
)


def worst_first(finding: Mapping[str, Any]) -> tuple[int, float]:
    """Sort key of a finding's JSON: the most severe, then the surest."""
    return -SEVERITIES.index(finding["severity"]), -finding["confidence"]


def exit_code(findings: Iterable[Mapping[str, Any]], fail_on: str) -> int:
    """1 where a finding fires at or above `fail_on` and none explains it, else 0."""
    limit = SEVERITIES.index(fail_on)
    return int(
        any(
            finding.get("state") == "firing"
            and not finding["explained_by"]
            and SEVERITIES.index(finding["severity"]) >= limit
            for finding in findings
        )
    )


def show(console: Console, finding: Mapping[str, Any]) -> None:
    """One finding: what, who, why, and what to do, in a few lines."""
    who = ", ".join(f"{key}={value}" for key, value in finding["subject"].items()) or "this node"
    severity = finding["severity"]
    head = Text(severity.upper(), style=_STYLES[severity])
    head.append(f"  {finding['symptom']}", style="bold").append(f"  {who}", style="dim")
    console.print(head)
    _line(console, finding["summary"])
    sure = f"{finding['confidence']:.0%} sure"
    _line(console, f"cause: {finding['cause']} ({sure})")
    for fact in finding["evidence"]:
        _line(console, f"- {_fact(fact)}", style="dim")
    for rival in finding["rivals"]:
        _line(console, f"not {rival['cause']}: {rival['why_not']}", style="dim")
    for missing in finding["missing"]:
        _line(console, f"would settle it: {missing}")
    for action in finding["actions"]:
        _line(console, f"next ({action['rung']}): {action['text']}")
    _line(console, f"runbook: gpudiag runbook '{finding['runbook']}'")
    console.print()


def _fact(fact: Mapping[str, Any]) -> str:
    value = fact["value"]
    figure = f"{value:g}" if isinstance(value, float | int) else str(value)
    said = f"{fact['name']} = {figure} {fact['unit']}".rstrip()
    return f"{said} (expected {fact['expected']})" if fact["expected"] else said


def _line(console: Console, text: str, style: str = "") -> None:
    console.print(Text("  " + text, style=style), soft_wrap=True)
