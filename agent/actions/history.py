"""What was done about each cause before, from the ledger. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import get_args

import msgspec

from gpudiag.agent.actions.contract import SPENDS
from gpudiag.agent.actions.ledger import Entry
from gpudiag.agent.findings.tried import Outcome, Tried

Cause = tuple[str, str]
"""Symptom and cause."""

_OUTCOMES = frozenset(get_args(Outcome))


def tried(entries: Iterable[Entry]) -> Mapping[Cause, tuple[Tried, ...]]:
    """Of each cause the actions whose outcome is known, what helped most often first.

    Evidence taken and words told work on no symptom and are left out.
    """
    ended: defaultdict[Cause, dict[str, list[Entry]]] = defaultdict(dict)
    for entry in entries:
        if entry.state in _OUTCOMES and entry.plan.rung in SPENDS:
            of = ended[entry.plan.symptom, entry.plan.cause]
            of.setdefault(entry.plan.action, []).append(entry)
    return {cause: _ranked(by_action) for cause, by_action in ended.items()}


def _ranked(by_action: Mapping[str, list[Entry]]) -> tuple[Tried, ...]:
    told = [_told(action, entries) for action, entries in by_action.items()]
    return tuple(sorted(told, key=lambda one: (-one.helped / one.times, -one.last_at)))


def _told(action: str, entries: list[Entry]) -> Tried:
    last = max(entries, key=lambda entry: entry.at)
    return Tried(
        action=action,
        times=len(entries),
        helped=sum(entry.state == "verified" for entry in entries),
        last=msgspec.convert(last.state, Outcome),
        last_at=last.at,
        target=last.plan.target,
    )
