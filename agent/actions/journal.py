"""Ledger and audit together: what is decided is told before it is done, and kept."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from typing import Any, Protocol

import msgspec

from gpudiag.agent.actions.audit import Decision, Line
from gpudiag.agent.actions.contract import Plan
from gpudiag.agent.actions.ledger import Entry, Ledger

log = logging.getLogger(__name__)

ACTOR = "gpudiag"


class Lines(Protocol):
    """Where audit lines go; raises `OSError` where one cannot be kept."""

    def write(self, line: Line) -> None: ...


class Journal:
    """Writes decisions; the same refusal of the same plan is told once, not at each evaluation."""

    def __init__(self, ledger: Ledger, audit: Lines, now: Callable[[], float]) -> None:
        self.ledger = ledger
        self._audit = audit
        self._now = now
        self._told: dict[str, str] = {}

    def note(self, plan: Plan, decision: Decision, why: str, actor: str = ACTOR) -> None:
        """One audit line; raises `OSError` where it cannot be written."""
        line = Line(time=self._now(), decision=decision, actor=actor, why=why, plan=plan)
        self._audit.write(line)

    def note_once(self, plan: Plan, decision: Decision, why: str) -> None:
        """The same, unless this was the last thing told of the plan but for its figures."""
        if self._is_new(plan.id, f"{decision} {why}"):
            self.note(plan, decision, why)

    def warn_once(self, about: str, text: str) -> None:
        """To the agent's log, where there is no plan to write of."""
        if self._is_new(about, text):
            log.warning("%s", text)

    def change(self, entry: Entry, **changed: Any) -> Entry:
        """The entry with some fields changed as of now, as it was written."""
        return self.ledger.put(msgspec.structs.replace(entry, at=self._now(), **changed))

    def _is_new(self, about: str, text: str) -> bool:
        gist = re.sub(r"[0-9]+", "#", text)
        new = self._told.get(about) != gist
        self._told[about] = gist
        return new
