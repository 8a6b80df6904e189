"""A Prometheus' answers out of a dict of series: enough to ask for names, series and samples."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from gpudiag.probes import Labels
from tests.promdouble import Asked, Reply, failure, matrix, success

Points = list[tuple[float, float]]
_NAMES = re.compile(r'__name__=~"([^"]*)"')
_EQUAL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_SPAN = re.compile(r"\[(\d+)ms\]$")


@dataclass
class Remembering:
    """`most` samples are given at once, more is refused as Prometheus does; `spoil` may answer
    in its place.
    """

    series: dict[tuple[str, Labels], Points] = field(default_factory=dict)
    natives: dict[tuple[str, Labels], list[tuple[float, Any]]] = field(default_factory=dict)
    most: int = 10**9
    warnings: list[str] = field(default_factory=list)
    spoil: Callable[[Asked], Reply | None] = lambda _: None

    def __call__(self, asked: Asked) -> Reply:
        spoiled = self.spoil(asked)
        if spoiled:
            return spoiled
        if asked.path.endswith("/label/__name__/values"):
            return success(sorted({name for name, _ in {**self.series, **self.natives}}))
        if asked.path.endswith("/series"):
            met = self._met({**self.series, **self.natives}, asked.parameters["match[]"][0])
            return success([{"__name__": name, **dict(labels)} for name, labels in met])
        return self._samples(asked)

    def _samples(self, asked: Asked) -> Reply:
        query, end = asked.parameters["query"][0], float(asked.parameters["time"][0])
        span = _SPAN.search(query)
        assert span, query
        start = end - int(span[1]) / 1000.0
        rows = []
        for key, points in self._met(self.series, query).items():
            inside = [[t, repr(v)] for t, v in points if start < t <= end]
            rows.append({"metric": {"__name__": key[0], **dict(key[1])}, "values": inside})
        for key, natives in self._met(self.natives, query).items():
            inside = [[t, one] for t, one in natives if start < t <= end]
            rows.append({"metric": {"__name__": key[0], **dict(key[1])}, "histograms": inside})
        if sum(len(row.get("values", ())) for row in rows) > self.most:
            return failure(422, "query processing would load too many samples into memory")
        return matrix(*rows, warnings=self.warnings)

    @staticmethod
    def _met(series: Mapping[tuple[str, Labels], Any], selector: str) -> dict[Any, Any]:
        found = _NAMES.search(selector)
        assert found, selector
        names = set(found[1].split("|"))
        equal = set(_EQUAL.findall(selector.replace(found[0], "")))
        return {key: v for key, v in series.items() if key[0] in names and equal <= set(key[1])}
