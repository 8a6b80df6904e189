"""The child's sets of series as samples, with a stale marker for each that is no longer there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from gpudiag.probes import Labels, Sample, labels
from gpudiag.probes.nvml.wire import values

Series = tuple[str, Labels]


class Decoder:
    """Labels are built once per series, not once per sample."""

    def __init__(self) -> None:
        self._sets: dict[int, list[Series]] = {}
        self._before: set[Series] = set()

    def keys(self, told: Mapping[str, Any]) -> list[Series]:
        """Take a KEYS frame; the series that this set had and has no longer."""
        number = int(told["set"])
        fresh = [(str(metric), labels(**of)) for metric, of in told["keys"]]
        gone = set(self._sets.get(number, ())).difference(fresh)
        self._sets[number] = fresh
        return sorted(gone)

    def values(self, payload: bytes) -> list[Sample]:
        """The samples of a VALUES frame."""
        number, at, got = values(payload)
        return [
            Sample(metric, of, at, value)
            for (metric, of), value in zip(self._sets[number], got, strict=True)
        ]

    def begin(self) -> None:
        """The child looks at the node anew: what it had told may not come back."""
        self._before.update(*self._sets.values())
        self._sets = {}

    def settle(self) -> list[Series]:
        """The child has told all it found: the series that did not come back."""
        gone = self._before.difference(*self._sets.values())
        self._before = set()
        return sorted(gone)

    def all(self) -> list[Series]:
        """Every series that was told; they stay, a child that fell silent may go on."""
        return sorted(self._before.union(*self._sets.values()))

    def drop(self) -> list[Series]:
        """The child is gone: all series that it had told."""
        self.begin()
        return self.settle()


def stale(series: Iterable[Series], at: float) -> list[Sample]:
    """A stale marker for each, so that no last value lingers."""
    return [Sample(metric, of, at, float("nan")) for metric, of in series]
