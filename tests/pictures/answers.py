"""What a real Prometheus answers to the panels of a dashboard."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tests.dashboards.boards import Json, substituted
from tests.prometheus import RunningPrometheus

POINTS = 200


@dataclass(frozen=True)
class Line:
    """One series of a panel: the letter of its query, its legend, and times beside values."""

    ref: str
    pattern: str
    labels: Mapping[str, str]
    times: tuple[float, ...]
    values: tuple[float, ...]


@dataclass(frozen=True)
class Asker:
    """Asks for the stretch from `start` to `end` with variables as `chosen`."""

    prometheus: RunningPrometheus
    start: float
    end: float
    chosen: Mapping[str, str]

    @property
    def step(self) -> float:
        return max(5.0, round((self.end - self.start) / POINTS))

    def panel(self, panel: Json) -> list[Line]:
        return [line for target in panel["targets"] for line in self._target(target)]

    def marks(self, board: Json) -> list[tuple[str, str, float]]:
        """Name, colour and time of each annotation: where its expression begins to be true."""
        found = []
        for mark in board["annotations"]["list"]:
            for line in self._range(mark["target"]["expr"], "", ""):
                begins = [
                    now
                    for before, now in zip((0.0, *line.times), line.times, strict=False)
                    if now - before > 1.5 * self.step
                ]
                # What was there before the picture begins is no event in it.
                found += [
                    (mark["name"], mark["iconColor"], t)
                    for t in begins
                    if t > self.start + 2 * self.step
                ]
        return sorted(set(found), key=lambda one: one[2])

    def _target(self, target: Json) -> list[Line]:
        ref, pattern = target["refId"], target["legendFormat"]
        if not target["instant"]:
            return self._range(target["expr"], ref, pattern)
        answer = self.prometheus.at(self._plain(target["expr"]), self.end)
        # Among equals the server keeps no order, and a mean's last digits depend on it too.
        by_value = target["expr"].startswith("sort")
        answer.sort(key=lambda one: sorted(one["metric"].items()))
        answer.sort(key=lambda one: round(float(one["value"][1]), 6) if by_value else 0.0)
        return [_line(ref, pattern, one["metric"], [one["value"]]) for one in answer]

    def _range(self, expr: str, ref: str, pattern: str) -> list[Line]:
        answer = self.prometheus.over(self._plain(expr), self.start, self.end, self.step)
        return [_line(ref, pattern, one["metric"], one["values"]) for one in answer]

    def _plain(self, expr: str) -> str:
        rate = f"{int(max(60, 4 * self.step))}s"
        return substituted(expr, rate, f"{int(self.end - self.start)}s", **self.chosen)


def _line(ref: str, pattern: str, labels: Mapping[str, str], pairs: list[Any]) -> Line:
    times = tuple(float(time) for time, _ in pairs)
    return Line(ref, pattern, labels, times, tuple(float(value) for _, value in pairs))
