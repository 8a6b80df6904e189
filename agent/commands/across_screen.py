"""What the nodes say together, beside the findings of each: on a terminal, a page, as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich.console import Console
from rich.text import Text

from gpudiag.agent.fleet.across import Across
from gpudiag.agent.fleet.draining import Drain
from gpudiag.agent.fleet.sharing import Shared
from gpudiag.agent.fleet.stretches import Held
from gpudiag.agent.history.noticed import utc

_SHOWN = 10
_DRAINS = 3


def lines(whole: Across) -> Iterator[dict[str, Any]]:
    """One object each for what is shared, each job held up and each node to drain."""
    yield from (one.to_json() for one in whole.shared)
    yield from (one.to_json() for one in whole.held)
    yield from (one.to_json() for one in whole.drains)


def show(console: Console, whole: Across) -> None:
    """Nothing where one node was looked at, or all is well between them."""
    for line in _lines(whole):
        console.print(line, soft_wrap=True)


def sentences(whole: Across) -> list[str]:
    """All of it in words, for a page that has the room."""
    failed = [_unjudged(whole)] if whole.failed else []
    drains = [_drain(number, drain) for number, drain in enumerate(whole.drains, start=1)]
    return [*map(_shared, whole.shared), *map(_held, whole.held), *drains, *failed]


def _lines(whole: Across) -> Iterator[Text]:
    if sentences(whole):
        yield Text("\nAcross the nodes", style="bold")
    for one in whole.shared:
        yield Text(_shared(one))
    for held in whole.held[:_SHOWN]:
        yield Text(_held(held))
    if len(whole.held) > _SHOWN:
        yield Text(f"and {len(whole.held) - _SHOWN} times more that jobs were held up", style="dim")
    for number, drain in enumerate(whole.drains[:_DRAINS], start=1):
        yield Text(_drain(number, drain))
    if whole.failed:
        yield Text(_unjudged(whole), style="yellow")


def _shared(one: Shared) -> str:
    return f"shared: {one.summary}"


def _unjudged(whole: Across) -> str:
    return f"the nodes could not be judged together: {whole.failed}"


def _held(held: Held) -> str:
    text = (
        f"{held.job.name} ({held.job.ranks} GPUs on {len(held.job.nodes)} nodes) lost"
        f" {held.share:.0%} of each step, {held.gpu_hours:.1f} GPU-hours, from {utc(held.start)}"
        f" to {utc(held.end)}"
    )
    who = [f"{one.finding.cause} on {one.node}: {one.finding.summary}" for one in held.found]
    return f"{text}: {'; '.join(who) or held.unseen or 'no rank or node stands out'}"


def _drain(number: int, drain: Drain) -> str:
    first = f" (first look at {drain.first})" if drain.first else ""
    return (
        f"drain {number}: {drain.node} gives {drain.gains:.1f} GPUs back and idles {drain.costs}:"
        f" {'; '.join(drain.why)}{first}"
    )
