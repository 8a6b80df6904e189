"""Reads a probe as the agent does and keeps what it said."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from gpudiag.probes import Event, Labels, Sample, labels
from gpudiag.probes.nvml.probe import Nvml
from tests.running import PATIENCE


class Watch:
    """The newest value of each series (NaN = gone) and all events so far."""

    def __init__(self, probe: Nvml) -> None:
        self.probe = probe
        self.events: list[Event] = []
        self.newest: dict[tuple[str, Labels], float] = {}
        self.times: dict[tuple[str, Labels], float] = {}

    def read(self) -> None:
        records = list(self.probe.read())
        samples = [record for record in records if isinstance(record, Sample)]
        self.events += [record for record in records if isinstance(record, Event)]
        self.newest.update(((s.metric, s.labels), s.value) for s in samples)
        self.times.update(((s.metric, s.labels), s.time) for s in samples)

    def until(self, condition: Callable[[], bool], seconds: float = PATIENCE) -> None:
        end = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < end, f"not in {seconds} s; events {self.events}"
            time.sleep(0.02)
            self.read()

    def for_seconds(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            time.sleep(0.02)
            self.read()

    def get(self, metric: str, **of: str) -> float | None:
        """The newest value of the series with at least these labels, None when absent."""
        for (name, pairs), value in self.newest.items():
            if name == f"gpudiag_{metric}" and set(labels(**of)) <= set(pairs):
                return None if math.isnan(value) else value
        return None

    def has(self, metric: str, value: float, **of: str) -> Callable[[], bool]:
        return lambda: self.get(metric, **of) == value

    def told(self, kind: str) -> list[Event]:
        return [event for event in self.events if event.type == kind]
