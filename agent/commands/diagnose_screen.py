"""What `gpudiag diagnose` found, on a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from gpudiag.agent import units
from gpudiag.agent.commands import output
from gpudiag.agent.history.diagnosing import Diagnosed, Question
from gpudiag.agent.history.noticed import utc
from gpudiag.agent.history.presence import EVENTS_ALONE, Presence
from gpudiag.agent.history.report import Episode, Untold

_NODES_NAMED = 3
_TIMES_SHOWN = 3


def show(
    console: Console,
    question: Question,
    found: Diagnosed,
    there: Presence,
    told: Sequence[Episode],
    blind: Sequence[Untold],
) -> None:
    """What is there, the findings worst first, and what cannot be told."""
    _say(console, f"{utc(question.start)} to {utc(question.end)} at {question.access.url}")
    for line in about(found, there):
        _say(console, line, "dim")
    console.print()
    if not told:
        _say(console, "Nothing known was wrong.")
    for episode in told:
        _say(console, when(episode))
        output.show(console, episode.to_json())
        console.print()
    for one in blind:
        missing = "; ".join(one.missing)
        _say(console, f"cannot tell {one.symptom} on {some(one.nodes)}: {missing}", "dim")
    for node in found.nodes:
        for note in node.notes:
            _say(console, f"{node.node}: {note}", "dim")


def about(found: Diagnosed, there: Presence) -> list[str]:
    """What the server has, in a few lines."""
    on = (f"{title} on {count}" for title, count in there.exporters.items())
    series = sum(node.series for node in found.listing.nodes)
    samples = sum(node.samples for node in found.nodes)
    lines = [
        f"{len(found.listing.nodes)} nodes: {', '.join(on)}",
        f"{series} series, {samples} samples",
        *there.spellings,
        f"can be judged: {', '.join(there.judged) or 'nothing'}",
    ]
    agents = [gap.symptom for gap in there.gaps if not gap.fields]
    if agents:
        lines.append(f"needs gpudiag's agent: {', '.join(dict.fromkeys(agents))}")
    if there.absent:
        lines.append(f"no job, server or GPU seen that could have it: {', '.join(there.absent)}")
    lines.append(f"told by logs and exits alone, so by the agent: {', '.join(EVENTS_ALONE)}")
    return lines + [f"the server warns: {text}" for text in found.listing.warnings]


def when(episode: Episode) -> str:
    """`node n1: 2026-11-30 12:00:05Z to 12:30:00Z, and 2 times more`."""
    spans = [
        f"{utc(raised)} to {utc(ended) if ended is not None else 'the end'}"
        for raised, ended in episode.times[:_TIMES_SHOWN]
    ]
    more = len(episode.times) - _TIMES_SHOWN
    folded = f", explained by {episode.last.explained_by}" if episode.last.explained_by else ""
    total = sum((ended or raised) - raised for raised, ended in episode.times)
    lasted = f" ({units.spell_seconds(round(total))} in all)" if len(episode.times) > 1 else ""
    again = f" and {more} times more" if more > 0 else ""
    return f"node {episode.node}: {', '.join(spans)}{again}{lasted}{folded}"


def some(nodes: Sequence[str]) -> str:
    """The first few by name and how many more."""
    named = ", ".join(nodes[:_NODES_NAMED])
    more = len(nodes) - _NODES_NAMED
    return f"{named} and {more} more" if more > 0 else named


def _say(console: Console, text: str, style: str = "") -> None:
    console.print(Text(text, style=style), soft_wrap=True)
