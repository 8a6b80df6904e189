"""The words of a dialect file: what a foreign name means, and what is made of several."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

DialectKind = Literal["plain", "clock_event_bits", "last_xid", "rate", "sum", "max"]
How = Literal["ratio", "product"]


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a foreign name means: our metric, the factor to its unit, labels to add or to keep.

    `to` may also be a name of the dialect's own, from which its `derived` metrics are made.
    `kind` is plain; clock_event_bits, a bit mask that becomes a series per reason; last_xid, a
    gauge that holds the last code for ever and becomes a count of its changes; rate, a counter
    that becomes its increase a second since its last reading; sum or max, several series (of
    processes, of reasons) that are one of ours. Of the names of one `row` the one with the least
    `order` counts, the rest are older spellings of it.

    `where` says which series are meant, `unless` names beside which it does not count, `reads` the
    label in which the figure stands. `values` gives our word for a label's value, by our label and
    theirs ("*" is any other; without it the series is not meant); `keep` and `rename` say which
    labels stay, and how we call them; `le` is the factor to a histogram's bounds. `versions` are
    those that expose the name, as `>=0.8.5,<0.13`; empty: all that are known.
    """

    to: str
    factor: float = 1.0
    add: tuple[tuple[str, str], ...] = ()
    keep: tuple[str, ...] = ()
    rename: tuple[tuple[str, str], ...] = ()
    values: Mapping[tuple[str, str], str] = field(default_factory=dict)
    kind: DialectKind = "plain"
    le: float = 1.0
    where: tuple[tuple[str, str], ...] = ()
    unless: tuple[str, ...] = ()
    reads: str = ""
    row: int = 0
    order: int = 0
    versions: str = ""


@dataclass(frozen=True, slots=True)
class Derived:
    """One of our metrics that nobody exposes: the ratio or the product of two that are told."""

    to: str
    of: tuple[str, str]
    how: How


@dataclass(frozen=True, slots=True)
class Dialect:
    """One exporter. Of two that tell the same of a GPU or a server, the lower `rank` is believed.

    `labels` maps its label names to ours, all others are dropped; `uuid_prefix` is put before a
    UUID that lacks it; the first of `identity` that a series has names its server. Series that
    differ only in `copies` tell the same thing: the highest is meant. `absent` says of a metric
    why this exporter does not tell it.
    """

    name: str
    rank: int
    prefix: tuple[str, ...]
    labels: Mapping[str, str]
    meanings: Mapping[str, tuple[Meaning, ...]]
    uuid_prefix: str = ""
    identity: tuple[str, ...] = ()
    copies: frozenset[str] = frozenset()
    derived: tuple[Derived, ...] = ()
    absent: Mapping[str, str] = field(default_factory=dict)

    def tells(self) -> frozenset[str]:
        """Our metrics (histograms by their parts) that it can tell."""
        meant = {one.to for told in self.meanings.values() for one in told}
        return frozenset(meant) | {one.to for one in self.derived}
