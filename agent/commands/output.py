"""What commands share when they show findings: order, exit code, and the lines on a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any
from unicodedata import category

import click
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from gpudiag.agent.exporters import words
from gpudiag.probes.catalog import SEVERITIES, gravity

When = Callable[[Mapping[str, Any]], str]

_STYLES = {"info": "blue", "warning": "yellow", "critical": "bold red"}

fail_on = click.option(
    "--fail-on",
    type=click.Choice(SEVERITIES),
    default="warning",
    show_default=True,
    help="Exit 1 when a finding of this severity or worse is firing.",
)


class Screen(Console):
    """A console that what it shows cannot steer: a process may be named after an escape code."""

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """As `Console` does, with other people's control characters made visible."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=harmless(segment.text))


def harmless(text: str) -> str:
    """`text` with all that steers a terminal or turns the reading direction replaced."""
    if text.isprintable():
        return text
    return "".join("\ufffd" if category(c)[0] == "C" and c != "\n" else c for c in text)


def worst_first(finding: Mapping[str, Any]) -> tuple[int, float]:
    """Sort key of a finding's JSON: the most severe, then the surest."""
    return -gravity(finding["severity"]), -finding["confidence"]


def exit_code(findings: Iterable[Mapping[str, Any]], fail_on: str) -> int:
    """1 where a finding fires at or above `fail_on` and none explains it, else 0."""
    limit = gravity(fail_on)
    return int(
        any(
            finding.get("state") == "firing"
            and not finding["explained_by"]
            and gravity(finding["severity"]) >= limit
            for finding in findings
        )
    )


def show_all(console: Console, findings: Sequence[Mapping[str, Any]], when: When) -> None:
    """Findings worst first, each with what folds under it; `when` words their times."""
    for finding in sorted(findings, key=worst_first):
        if not finding["explained_by"]:
            show(console, finding, when(finding))
            for other in findings:
                if other["explained_by"] == finding["id"]:
                    _show_folded(console, finding, other)
            console.print()


def _show_folded(console: Console, cause: Mapping[str, Any], finding: Mapping[str, Any]) -> None:
    _line(console, f"explains {finding['symptom']}: {finding['summary']}")
    for action in finding["actions"]:
        if action not in cause["actions"]:
            _line(console, f"  next ({action['rung']}): {action['text']}")


def show(console: Console, finding: Mapping[str, Any], when: str = "") -> None:
    """One finding: what, who, since when, why, and what to do, in a few lines."""
    who = ", ".join(f"{key}={value}" for key, value in finding["subject"].items()) or "this node"
    severity = finding["severity"]
    head = Text(severity.upper(), style=_STYLES[severity])
    head.append(f"  {finding['symptom']}", style="bold").append(f"  {who}", style="dim")
    console.print(head)
    _line(console, finding["summary"])
    if when:
        _line(console, when)
    for remark in words.remarks(finding):
        _line(console, remark, style="green")
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


def _fact(fact: Mapping[str, Any]) -> str:
    said = words.fact(fact)
    expected = f" (expected {said.expected})" if said.expected else ""
    return f"{said.title}: {said.value}{expected}"


def _line(console: Console, text: str, style: str = "") -> None:
    console.print(Text("  " + text, style=style), soft_wrap=True)
