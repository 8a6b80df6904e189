"""Writes an incident file: what was recorded, on a regular grid, in the notation of people."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from gpudiag.agent.recording import incident, openmetrics
from gpudiag.agent.recording.expectations import Expect, Expectations
from gpudiag.agent.recording.timeline import Columns, Floats
from gpudiag.agent.units import spell_seconds
from gpudiag.probes import Event

MAX_CHARACTERS = 8 * 1024**2
"""Half of what a reader takes: series beyond it are left out, and the notes say so."""

_RESERVED = ("at", "source", "line", "type")


@dataclass(frozen=True, slots=True)
class Span:
    """The grid of a file: `count` moments `interval` seconds apart from `start`, epoch seconds."""

    start: float
    interval: float
    count: int

    @property
    def end(self) -> float:
        """The last moment."""
        return self.start + (self.count - 1) * self.interval


def draft(
    title: str,
    notes: str,
    span: Span,
    columns: Iterable[Columns],
    events: Iterable[Event],
    wanted: Expectations,
) -> str:
    """The text of an incident file; its times run from `span.start`, which becomes 0.

    Of two samples nearest to one moment the later counts.
    """
    series, left_out = _series(span, columns)
    if left_out:
        notes += f" {left_out} series were left out: together they are too long for a file."
    lines = [
        f"version: {incident.VERSION}",
        f"title: {_quoted(title)}",
        f"notes: {_quoted(notes)}",
        f"interval: {spell_seconds(span.interval)}",
        *_block("input_series", series),
        *_block("events", [_event(e, span.start) for e in events if _within(e, span)]),
        *_block("expect", map(_expect, wanted.expect)),
    ]
    if wanted.quiet:
        lines.append(f"quiet: [{', '.join(map(_quoted, sorted(wanted.quiet)))}]")
    return "\n".join(lines) + "\n"


def _series(span: Span, columns: Iterable[Columns]) -> tuple[list[str], int]:
    found: list[str] = []
    held = left_out = 0
    for key, times, values in columns:
        cells = _on_grid(span, times, values)
        if all(cell is None for cell in cells):
            continue
        row = f"series: {_quoted(openmetrics.series(*key))}, values: {_quoted(notation(cells))}"
        held += len(row)
        if held > MAX_CHARACTERS:
            left_out += 1
        else:
            found.append(row)
    return found, left_out


def _on_grid(span: Span, times: Floats, values: Floats) -> list[float | None]:
    cells: list[float | None] = [None] * span.count
    for time, value in zip(times.tolist(), values.tolist(), strict=True):
        place = round((time - span.start) / span.interval)
        if 0 <= place < span.count:
            cells[place] = value
    return cells


def notation(cells: Sequence[float | None]) -> str:
    """The cells as `notation.values` reads them: `0x20 1 _x3`, runs of one value together."""
    return " ".join(_run(text, len(list(run))) for text, run in groupby(map(_cell, cells)))


def _cell(value: float | None) -> str:
    if value is None:
        return "_"
    # Twelve digits tell apart what a double holds of bytes and seconds, and end no line in noise.
    return "stale" if math.isnan(value) else f"{value:.12g}"


def _run(text: str, length: int) -> str:
    if length == 1:
        return text
    if text == "stale":
        return " ".join([text] * length)
    return f"_x{length}" if text == "_" else f"{text}x{length - 1}"


def _within(event: Event, span: Span) -> bool:
    named = event.source in incident.SOURCES or event.source.startswith("log:")
    return named and span.start <= event.time <= span.end + span.interval


def _event(event: Event, start: float) -> str:
    pairs = {
        "at": f"{event.time - start:.3f}s",
        "source": event.source,
        "line": event.line,
        **({"type": event.type} if event.type else {}),
        **{key: str(value) for key, value in event.fields.items() if key not in _RESERVED},
    }
    return _pairs(pairs)


def _expect(one: Expect) -> str:
    text = f"symptom: {one.symptom}"
    if one.causes:
        text += f", cause: [{', '.join(map(_quoted, one.causes))}]"
    if one.subject:
        text += f", subject: {{{_pairs(one.subject)}}}"
    return text


def _pairs(pairs: Mapping[str, str]) -> str:
    return ", ".join(f"{_quoted(key)}: {_quoted(value)}" for key, value in pairs.items())


def _block(key: str, rows: Iterable[str]) -> list[str]:
    listed = [f"  - {{{row}}}" for row in rows]
    return [f"{key}:", *listed] if listed else []


def _quoted(text: str) -> str:
    """A JSON string, which YAML reads as it is."""
    return json.dumps(text)
