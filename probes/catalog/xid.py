"""Several XIDs at once: which is the cause, and what XID 154 says is to be done."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

from gpudiag.probes.catalog import RecoveryAction, load, recovery_actions, xids

_SEVERITIES = ("critical", "warning", "info")
_PARENTHESES = re.compile(r"\(([^()]*)\)")


@dataclass(frozen=True, slots=True)
class Burst:
    """XID codes that came together on one GPU: causes with the gravest first, and what followed."""

    causes: tuple[int, ...]
    consequences: tuple[int, ...]


def explain_burst(codes: Iterable[int]) -> Burst:
    """Causes and consequences among codes that came within `burst_seconds` on one GPU.

    A code that no catalogue knows is a cause of its own and comes last.
    """
    present = set(codes)
    follows = {c for c in present if c in xids() and present & set(xids()[c].consequence_of)}
    return Burst(tuple(sorted(present - follows, key=_rank)), tuple(sorted(follows)))


@cache
def burst_seconds() -> float:
    """How long after a first XID others belong to the same burst."""
    return float(load.read("xid.toml")["burst_seconds"])


def recovery_of(text: str) -> RecoveryAction | None:
    """The verdict of an XID 154 line, the text in its last parentheses; None where it has none.

    `text` may also be the verdict alone: `Node Reboot Required`.
    """
    found = _PARENTHESES.findall(text)
    verdict = (found[-1] if found else text).strip().lower()
    known = (action for action in recovery_actions().values() if action.xid_154)
    return next((action for action in known if action.xid_154.lower() == verdict), None)


def _rank(code: int) -> tuple[int, int, int]:
    order = _burst_order()
    place = order.index(code) if code in order else len(order)
    xid = xids().get(code)
    return place, _SEVERITIES.index(xid.severity) if xid else len(_SEVERITIES), code


@cache
def _burst_order() -> tuple[int, ...]:
    return tuple(load.read("xid.toml")["burst_order"])
