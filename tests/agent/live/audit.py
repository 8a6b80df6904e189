"""What a running agent wrote of its decisions."""

from __future__ import annotations

from pathlib import Path

import msgspec

from gpudiag.agent.actions.audit import Line
from tests.running import RunningAgent


def lines(agent: RunningAgent) -> list[Line]:
    """All audit lines, oldest first; one that is being written is left out."""
    path = Path(agent.folder) / "state" / "audit.jsonl"
    whole = path.read_bytes().rpartition(b"\n")[0].splitlines() if path.exists() else []
    return [msgspec.json.decode(line, type=Line) for line in whole]


def decisions(agent: RunningAgent, *, refused: bool = False) -> list[tuple[str, str]]:
    """(decision, action) of each line; refusals only where asked for."""
    return [
        (line.decision, line.plan.action)
        for line in lines(agent)
        if refused or line.decision != "refused"
    ]
