"""What is read: the records every probe gives, and the shape of a probe. Standard library only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

Labels = tuple[tuple[str, str], ...]
"""Label pairs sorted by name; hashable, so that a series is `(metric, labels)`."""


def labels(**pairs: str) -> Labels:
    """The label pairs as `Labels`; build them once per subject and keep them, reads are hot."""
    return tuple(sorted(pairs.items()))


class Sample(NamedTuple):
    """One reading. What could not be read is absent: never 0, never the last value again.

    `metric` is a key of `catalog/metrics.toml`, `time` epoch seconds UTC, `value` in the
    metric's base unit (bytes, seconds, ratios 0-1). NaN is the stale marker.
    """

    metric: str
    labels: Labels
    time: float
    value: float


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened at `time` (epoch seconds UTC).

    `source` is one of kmsg, log:NAME, process, torch, serving, kubernetes, agent, action; `line`
    the text as it came, bounded to `MAX_LINE` characters; `fields` what the writer said beside it.
    """

    time: float
    source: str
    line: str
    type: str = ""
    fields: Mapping[str, str] = field(default_factory=dict)


MAX_LINE = 4096

Record = Sample | Event


class Probe(Protocol):
    """One source of truth. `read` may block; the scheduler gives each probe its own thread."""

    @property
    def name(self) -> str: ...

    @property
    def metrics(self) -> frozenset[str]:
        """The metrics it may emit, keys of the catalogue; checked when the agent starts."""

    cadence: float
    """Seconds between reads; the configuration may set it."""

    def read(self) -> Iterable[Record]:
        """All that is known now. Raises `Unavailable` when the thing is not on this machine."""

    def close(self) -> None:
        """Give back files and children; called once, from another thread, at shutdown."""
