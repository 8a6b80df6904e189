"""An agent that kills itself at a named moment of an action: what a test puts before its start.

A moment is what was just about to happen: `audit begun command`, `ledger started command`,
`lever do command`; `under way command` is when the command's process runs.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from subprocess import Popen
from typing import Any

from gpudiag.agent import writer
from gpudiag.agent.acting import actor
from gpudiag.agent.actions import course
from gpudiag.agent.actions.audit import Audit, Line
from gpudiag.agent.actions.ledger import Entry, Ledger
from gpudiag.agent.actions.levers.commands import Command
from gpudiag.agent.actions.levers.workload import Unready
from gpudiag.agent.findings import book


def _entry(entry: Entry) -> str:
    known = [name for name in ("cleared_at", "undone_at") if getattr(entry, name) is not None]
    return " ".join(("ledger", entry.state, *known, entry.plan.action))


def _line(line: Line) -> str:
    return f"audit {line.decision} {line.plan.action}"


NAMES: tuple[tuple[Any, str, Callable[..., str]], ...] = (
    (Audit, "write", _line),
    (Ledger, "add", _entry),
    (Ledger, "put", _entry),
    (Command, "do", lambda plan: f"lever do {plan.action}"),
    (Popen, "communicate", lambda *_: "under way command"),
    (Unready, "do", lambda plan: f"lever do {plan.action}"),
    (Unready, "undo", lambda plan: f"lever undo {plan.action}"),
)


def install(passed: Path, at: str) -> None:
    """Write each moment to `passed`, and die at the first that is called `at`.

    Rounds come ten times as often as they do for a user, so that a life takes seconds.
    """
    writer.EVALUATE_SECONDS, actor.TICK_SECONDS, course.SETTLE_SECONDS = 0.5, 0.5, 1.0
    book.CARRIED_GRACE = 10.0

    def moment(name: str) -> None:
        with passed.open("a") as told:
            told.write(f"{name}\n")
        if name == at:
            os.kill(os.getpid(), signal.SIGKILL)

    for owner, method, named in NAMES:
        setattr(owner, method, _watched(getattr(owner, method), named, moment))


def _watched(
    work: Callable[..., Any], named: Callable[..., str], moment: Callable[[str], None]
) -> Callable[..., Any]:
    def watched(self: object, *args: Any, **kwargs: Any) -> Any:
        moment(named(*args))
        return work(self, *args, **kwargs)

    return watched
