"""What one log line says: its kind, and the rank, collective or process that it speaks of.

Pure text in, `LogFact` out; used by the live reader and by whoever holds log text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from gpudiag.probes import MAX_LINE
from gpudiag.probes.logs.kinds import kinds
from gpudiag.probes.logs.prefix import without_prefix


@dataclass(frozen=True, slots=True)
class LogFact:
    """A recognised line: `text` without its logger's prefix, `fields` what it says beside it.

    Fields, where the line tells them: `rank` (who speaks), `culprit` (the rank complained of),
    `local_rank`, `pid`, `code`, `sequence`, `operation`, `elements`, `enqueued`, `completed`,
    `group`, `waited` (milliseconds).
    """

    kind: str
    text: str
    fields: Mapping[str, str] = field(default_factory=dict)

    @property
    def rank(self) -> str:
        """The rank that speaks, "" where the line does not tell."""
        return self.fields.get("rank", "")

    def number(self, name: str) -> int | None:
        """A field as a number, None where the line does not tell it."""
        text = self.fields.get(name, "")
        return int(text) if text.lstrip("-").isdecimal() and len(text) < 20 else None


_SHARED = {
    "rank": re.compile(r"\[[rR]ank ?(\d{1,7})\]|\b[rR]ank ?[=:]? ?(\d{1,7})\b(?! failed)"),
    "pid": re.compile(r"\bpid[=:]? ?(\d{1,10})\b|Process (\d{1,10}) "),
}
_OF_KIND = {
    "collective_timeout": {
        "culprit": re.compile(r"\b[Rr]ank (\d{1,7}) failed to pass"),
        "sequence": re.compile(
            r"SeqNum=(\d{1,15})|work sequence id: (\d{1,15})|NCCL work: (\d{1,15})"
            r"|watchdog at work: (\d{1,15})"
        ),
        "operation": re.compile(r"OpType=(\w{1,40})"),
        "elements": re.compile(r"NumelIn=(\d{1,18})"),
        "enqueued": re.compile(r"last enqueued(?: NCCL)? work: (-?\d{1,15})"),
        "completed": re.compile(r"last completed(?: NCCL)? work: (-?\d{1,15})"),
        "group": re.compile(r"\[PG ID \w+ PG GUID \w+\(([^)]{1,80})\)|\[PG (?:ID )?(\w{1,20})"),
        "waited": re.compile(r"Timeout\(ms\)=(\d{1,12})|Timed out waiting (\d{1,12})ms"),
    },
    "exit": {
        "code": re.compile(r"exitcode ?\s*: ?(-?\d{1,10})"),
        "local_rank": re.compile(r"local_rank: ?(\d{1,7})"),
    },
    "loader_death": {
        "pid": re.compile(r"\(pids?(?:\(s\))? (\d{1,10})"),
        "signal": re.compile(r"killed by signal: ([\w ]{1,30}\w)"),
    },
    "saved": {"step": re.compile(r"\b(?i:step|iteration|iter)[ =:_#]*(\d{1,15})")},
    "resumed": {"step": re.compile(r"\b(?i:step|iteration|iter)[ =:_#]*(\d{1,15})")},
}
_CHECKPOINTS = re.compile(r"ckpt|checkpoint|resum", re.IGNORECASE)


def parse(line: str) -> LogFact | None:
    """The fact in one line, None where it is nothing that is known. Never raises."""
    line = line[:MAX_LINE]
    text = ""
    for kind in kinds():
        if not any(needle in line for needle in kind.needles):
            continue
        text = text or without_prefix(line)
        if kind.pattern.search(text) and _counts(kind.name, line):
            return LogFact(kind.name, text, _fields(kind.name, line))
    return None


def _counts(kind: str, line: str) -> bool:
    # Of steps everybody speaks; of those that were saved or resumed only with a checkpoint.
    return kind not in ("saved", "resumed") or bool(_CHECKPOINTS.search(line))


def _fields(kind: str, line: str) -> dict[str, str]:
    found = {}
    for name, pattern in {**_SHARED, **_OF_KIND.get(kind, {})}.items():
        match = pattern.search(line)
        value = next((group for group in match.groups() if group), "") if match else ""
        if value:
            found[name] = value
    return found
