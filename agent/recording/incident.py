"""Incident files: a recorded or invented incident on one screen, with what it must give."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gpudiag.agent.recording import expectations, notation, yaml_items
from gpudiag.agent.recording.expectations import Expectations
from gpudiag.agent.recording.timeline import Columns, SeriesKey, Timeline, timeline
from gpudiag.agent.recording.yaml_items import Item
from gpudiag.probes import MAX_LINE, Event
from gpudiag.probes.errors import UsageError

VERSION = 1
DEFAULT_INTERVAL = 60.0

SOURCES = ("kmsg", "nvml", "process", "torch", "serving", "kubernetes", "agent", "action")

_OPTIONAL = (
    *("version", "title", "notes", "interval"),
    *("input_series", "events", "expect", "quiet"),
)


@dataclass(frozen=True, slots=True)
class Incident:
    """An incident file: times in seconds from its start; the timeline holds its expectations."""

    title: str
    notes: str
    timeline: Timeline

    @property
    def expectations(self) -> Expectations:
        """What it must and must not give."""
        return self.timeline.expectations


def read(path: Path) -> Incident:
    """The incident in `path`; raises `UsageError` naming file, line and key."""
    return _incident(yaml_items.read(path))


def parse(text: str, file: str = "incident") -> Incident:
    """The incident in `text`; `file` stands for it in complaints."""
    return _incident(yaml_items.parse(text, file))


def _incident(top: Item) -> Incident:
    keys = top.mapping((), _OPTIONAL)
    if "version" in keys and keys["version"].text() != str(VERSION):
        raise keys["version"].error(f"this gpudiag reads version {VERSION}; upgrade it")
    interval = keys["interval"].seconds() if "interval" in keys else DEFAULT_INTERVAL
    if interval <= 0.0:
        raise keys["interval"].error("must be longer than nothing")
    return Incident(
        title=keys["title"].text() if "title" in keys else "",
        notes=keys["notes"].text() if "notes" in keys else "",
        timeline=timeline(
            _columns(keys["input_series"], interval) if "input_series" in keys else [],
            map(_event, keys["events"].items()) if "events" in keys else [],
            start=0.0,
            interval=interval,
            expectations=expectations.read(keys),
        ),
    )


def _columns(item: Item, interval: float) -> list[Columns]:
    found: dict[SeriesKey, Columns] = {}
    room = notation.MAX_SAMPLES
    for one in item.items():
        keys = one.mapping(("series", "values"), ())
        try:
            key = notation.series(keys["series"].text())
        except UsageError as error:
            raise keys["series"].error(str(error)) from error
        try:
            values = notation.values(keys["values"].text(), room)
        except UsageError as error:
            raise keys["values"].error(str(error)) from error
        if key in found:
            raise keys["series"].error("this series stands here twice")
        room -= len(values)
        found[key] = _column(key, values, interval)
    return list(found.values())


def _column(key: SeriesKey, values: list[float | None], interval: float) -> Columns:
    there = [index for index, value in enumerate(values) if value is not None]
    times = np.array(there, dtype=np.float64) * interval
    return key, times, np.array([v for v in values if v is not None], dtype=np.float64)


def _event(item: Item) -> Event:
    keys = item.mapping(("at", "source", "line"))
    source = keys["source"].text()
    if source not in SOURCES and not (source.startswith("log:") and len(source) > len("log:")):
        raise keys["source"].error(f"no such source; there are {', '.join(SOURCES)}, log:NAME")
    named = ("at", "source", "line", "type")
    return Event(
        time=keys["at"].seconds(),
        source=source,
        line=keys["line"].text()[:MAX_LINE],
        type=keys["type"].text() if "type" in keys else "",
        fields={name: value.text() for name, value in keys.items() if name not in named},
    )
