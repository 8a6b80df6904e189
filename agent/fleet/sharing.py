"""What nodes with one fault have in common: a rack, a switch, a driver, set against chance."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

CHANCE = 0.01
"""A label is named when chance alone would give it to one fleet in a hundred."""

FEWEST = 3
"""Two nodes in one rack have nearly always something in common."""

Places = Mapping[str, Mapping[str, str]]
"""Node -> its labels (rack, switch, zone, driver, image)."""


@dataclass(frozen=True, slots=True)
class Shared:
    """A fault of which a label's nodes have more than chance would give them.

    `nodes` have the fault and the label; `with_label` nodes have the label, `with_fault` the fault,
    of `all_nodes`. `chance` is the corrected probability of so many or more; `alike` are labels
    that the same nodes share, so that the data cannot tell them apart.
    """

    symptom: str
    cause: str
    label: str
    value: str
    nodes: tuple[str, ...]
    with_label: int
    with_fault: int
    all_nodes: int
    chance: float
    alike: tuple[str, ...] = ()

    @property
    def times(self) -> float:
        """How many times as often there as on the other nodes of the fleet; inf where never."""
        elsewhere = self.all_nodes - self.with_label
        outside = (self.with_fault - len(self.nodes)) / elsewhere if elsewhere else 0.0
        here = len(self.nodes) / self.with_label
        return here / outside if outside else math.inf

    @property
    def summary(self) -> str:
        """One sentence a person reads."""
        others = f" (as well {', '.join(self.alike)})" if self.alike else ""
        return (
            f"{self.symptom} ({self.cause}) on {len(self.nodes)} of {self.with_label} nodes with"
            f" {self.label}={self.value}{others}, and on {self.with_fault - len(self.nodes)} of"
            f" {self.all_nodes - self.with_label} others: by chance {_spelled(self.chance)}"
        )

    def to_json(self) -> dict[str, Any]:
        """The line that stands for it."""
        return {
            "kind": "shared",
            "symptom": self.symptom,
            "cause": self.cause,
            "label": {self.label: self.value},
            "alike": list(self.alike),
            "nodes": list(self.nodes),
            "with_label": self.with_label,
            "with_fault": self.with_fault,
            "all_nodes": self.all_nodes,
            "chance": self.chance,
            "summary": self.summary,
        }


def shared(
    faults: Mapping[tuple[str, str], Iterable[str]], places: Places, chance: float = CHANCE
) -> list[Shared]:
    """What each fault (symptom, cause -> its nodes) is concentrated in, the least chance first.

    The tail of the hypergeometric distribution, which is Fisher's one-sided exact test (Fisher
    1935), times the number of label values looked at over all faults (Bonferroni; Dunn 1961). Once
    a label is named its nodes are set aside, and the next must stand out among the rest.
    """
    looked = {
        fault: set(nodes) & places.keys()
        for fault, nodes in faults.items()
        if len(set(nodes) & places.keys()) >= FEWEST
    }
    tests = len(looked) * sum(1 for _ in _groups(places, set(places)))
    found = [
        one
        for (symptom, cause), nodes in looked.items()
        for one in _of(symptom, cause, nodes, places, tests, chance)
    ]
    return sorted(found, key=lambda one: (one.chance, one.symptom, one.cause, one.label))


def tail(population: int, marked: int, drawn: int, least: int) -> float:
    """P(X >= least) of `drawn` nodes out of `population`, of which `marked` have the fault."""
    most = min(marked, drawn)
    logs = [_log_mass(population, marked, drawn, hit) for hit in range(max(least, 0), most + 1)]
    possible = [log for log in logs if log > -math.inf]
    if not possible:
        return 0.0
    top = max(possible)
    return min(1.0, math.exp(top + math.log(sum(math.exp(log - top) for log in possible))))


def _log_mass(population: int, marked: int, drawn: int, hit: int) -> float:
    if drawn - hit > population - marked:
        return -math.inf
    return (
        _log_choose(marked, hit)
        + _log_choose(population - marked, drawn - hit)
        - _log_choose(population, drawn)
    )


def _log_choose(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)


def _groups(places: Places, among: set[str]) -> Iterator[tuple[str, str, frozenset[str]]]:
    """Each label value with its nodes, but those that one node has alone or all have."""
    found: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    for node in among:
        for pair in places[node].items():
            found[pair].add(node)
    for (label, value), nodes in sorted(found.items()):
        if 1 < len(nodes) < len(among):
            yield label, value, frozenset(nodes)


def _of(
    symptom: str, cause: str, nodes: set[str], places: Places, tests: int, chance: float
) -> Iterator[Shared]:
    rest = set(places)
    while len(nodes & rest) >= FEWEST:
        bad = nodes & rest
        rated = [
            (tests * tail(len(rest), len(bad), len(group), len(bad & group)), label, value, group)
            for label, value, group in _groups(places, rest)
            if len(bad & group) >= FEWEST
        ]
        best = min(rated, default=None, key=lambda one: (one[0], -len(one[3]), one[1]))
        if best is None or best[0] > chance:
            return
        p, label, value, group = best
        alike = tuple(f"{n}={v}" for _, n, v, g in rated if g == group and (n, v) != (label, value))
        hit = tuple(sorted(bad & group))
        yield Shared(symptom, cause, label, value, hit, len(group), len(bad), len(rest), p, alike)
        rest -= group


def _spelled(chance: float) -> str:
    return f"1 in {1.0 / chance:.0f}" if chance > 1e-6 else "less than 1 in a million"
