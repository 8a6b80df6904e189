"""What kernel and log lines said lately, and on which node: shared by the rules."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache

from gpudiag.agent.rules.contract import Subject, subject
from gpudiag.agent.window import Point, Window
from gpudiag.agent.window.events import MAX_EVENTS
from gpudiag.probes import Event, kernel_lines

_parse = lru_cache(maxsize=MAX_EVENTS)(kernel_lines.parse)


@lru_cache(maxsize=64)
def _any_of(needles: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(map(re.escape, needles)))


Where = dict[str, str]
"""Label values that pick one node's series: `{"node": name}`, or nothing on a single node."""


def kernel_facts(
    window: Window, seconds: float, kinds: Sequence[str], needles: Sequence[str]
) -> list[tuple[Event, kernel_lines.KernelFact]]:
    """Kernel facts of these kinds in the last `seconds`, oldest first.

    Only lines of these kinds, or of no known kind that hold one of `needles`, are parsed: a burst
    of other lines must cost nothing.
    """
    found = []
    holds = _any_of(tuple(needles)).search
    for event in window.events(seconds, source="kmsg"):
        if event.type in kinds or (not event.type and holds(event.line)):
            fact = _parse(event.line)
            if fact is not None and fact.kind in kinds:
                found.append((event, fact))
    return found


def lines(window: Window, seconds: float, needle: str) -> Iterator[Event]:
    """Events of any source but the kernel whose line holds `needle`, oldest first."""
    for event in window.events(seconds):
        if needle in event.line and event.source != "kmsg":
            yield event


def nodes(points: Iterable[Point]) -> list[Where]:
    """The nodes that these readings speak of; empty where there are none."""
    names = {point.labels.get("node", "") for point in points}
    named: list[Where] = [{"node": name} for name in sorted(names) if name]
    return named or ([{}] if names else [])


def at(where: Where) -> Subject:
    """The node as a finding's subject; empty on a single node that has no name."""
    return subject(**where)


def event_node(event: Event) -> Where:
    """The node that an event names in its fields, if it does."""
    return {"node": event.fields["node"]} if "node" in event.fields else {}
