"""A backtest on a terminal: one row a symptom, then examples of what comes and what goes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rich.console import Console
from rich.table import Table
from rich.text import Text

from gpudiag.agent import units
from gpudiag.agent.config import RuleSettings
from gpudiag.agent.history.backtest import EXAMPLES, Backtest, Compared, Raised
from gpudiag.agent.history.noticed import utc

_UNBOUNDED = 250


def show(console: Console, found: Backtest, name: str) -> None:
    """Counts and times under the shipped settings and under those of the file `name`."""
    nodes = len(found.then.nodes)
    console.print(Text(f"{nodes} nodes, the shipped settings (now) beside those of {name} (then)"))
    if not found.symptoms:
        console.print(Text("Nothing would have been raised that is not raised now, or left out."))
        return
    if not console.is_terminal:
        # No column may fall victim to a guessed width.
        console.width = _UNBOUNDED
    table = Table(box=None, pad_edge=False, header_style="dim")
    for column in ("symptom", "now", "then", "firing now", "firing then", "sooner by", "changed"):
        table.add_column(column, overflow="fold")
    for one in found.symptoms:
        table.add_row(*map(Text, _cells(one)))
    console.print(table, soft_wrap=True)
    for one in found.symptoms:
        for line in (*_examples("+", one.added), *_examples("-", one.dropped)):
            console.print(Text(f"{one.symptom} {line}"), soft_wrap=True)


def _cells(one: Compared) -> Iterator[str]:
    yield one.symptom
    yield str(len(one.now))
    yield str(len(one.then))
    yield units.spell_seconds(round(one.seconds_now))
    yield units.spell_seconds(round(one.seconds_then))
    yield f"{one.earlier:.0f} s" if one.earlier else ""
    yield _changed(one.settings) if one.settings else "not itself"


def _changed(settings: RuleSettings) -> str:
    if settings.disabled:
        return "disabled"
    held = [f"{name}={value}" for name, value in settings.thresholds.items()]
    for name, seconds in (("hold", settings.hold), ("clear", settings.clear)):
        held += [f"{name}={units.spell_seconds(seconds)}"] if seconds is not None else []
    return ", ".join(held)


def _examples(sign: str, several: Iterable[Raised]) -> Iterator[str]:
    told = list(several)
    for one in told[:EXAMPLES]:
        over = utc(one.end) if one.end is not None else "the end"
        yield f"{sign} {one.node} {utc(one.start)} to {over}: {one.summary}"
    if len(told) > EXAMPLES:
        yield f"{sign} and {len(told) - EXAMPLES} more: --json has them all"
