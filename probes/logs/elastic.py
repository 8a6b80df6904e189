"""What torchrun tells of its workers' failures: its closing block, and the error files they leave.

The block lists every failure, but only the one it calls the root cause failed by itself: the
others were mostly ended by torchrun. So it is told first, and each line says who failed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from gpudiag.probes import MAX_LINE
from gpudiag.probes.logs.lines import LogFact
from gpudiag.probes.logs.prefix import without_prefix

MAX_BLOCK_LINES = 2000
MAX_ERROR_FILE = 1 << 20

_RULER = re.compile(r"[=*]{20,}$")
_SECTION = re.compile(r"(Failures:|Root Cause \(first observed failure\):)$")
_START = re.compile(r"[-=]{20,}$|<NO_OTHER_FAILURES>$")
_ITEM = re.compile(r"(?:\[[^\]]{1,60}\]:? ?)?\[\d{1,6}\]:$")
_FIELD = re.compile(r"(time|host|rank|exitcode|error_file|traceback) *: ?(.*)")
_EXIT = re.compile(r"(-?\d+) *\(pid: ?(\d+)\)(?: *\((\w+)\))?")
_RANK = re.compile(r"(\d+) *\(local_rank: ?(\d+)\)")
_ERROR = re.compile(r"(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Interrupt|Exit)\b.*")


@dataclass(slots=True)
class _Failure:
    root: bool
    said: dict[str, str] = field(default_factory=dict)
    rest: list[str] = field(default_factory=list)


class Block:
    """Gathers the lines of one log's closing block; `take` answers whether a line belongs to it."""

    def __init__(self) -> None:
        self._open = self._root = False
        self._lines = 0
        self._failures: list[_Failure] = []

    @property
    def is_open(self) -> bool:
        """Whether a block has begun and not ended."""
        return self._open

    def take(self, line: str) -> tuple[bool, list[LogFact]]:
        """Whether the line is the block's, and the facts of a block that it ends."""
        text = without_prefix(line)
        section = _SECTION.match(text)
        if section:
            self._open, self._root = True, section[1].startswith("Root")
            return True, []
        if not self._open:
            return False, []
        if _ITEM.match(line.strip()):
            self._failures.append(_Failure(self._root))
            return True, []
        if not self._failures and text and not _START.match(text):
            # Others write such a heading too.
            self.finish()
            return False, []
        self._lines += 1
        if _RULER.match(text) or self._lines > MAX_BLOCK_LINES:
            return True, self.finish()
        self._keep(text)
        return True, []

    def finish(self) -> list[LogFact]:
        """The facts of what was gathered, the root cause first; empties it."""
        failures = sorted(self._failures, key=lambda one: not one.root)
        self._open, self._lines, self._failures = False, 0, []
        facts = [_fact(one) for one in failures if "exitcode" in one.said]
        return [told for fact in facts for told in (fact, *_words(fact))]

    def _keep(self, text: str) -> None:
        if not self._failures:
            return
        if found := _FIELD.match(text):
            self._failures[-1].said.setdefault(found[1], found[2].strip())
        elif _ERROR.match(text):
            self._failures[-1].rest = [text]


def _fact(one: _Failure) -> LogFact:
    said = one.said
    ended, rank = _EXIT.match(said["exitcode"]), _RANK.match(said.get("rank", ""))
    told = said.get("traceback", "") if not one.rest else one.rest[0]
    fields = {
        "rank": rank[1] if rank else "",
        "local_rank": rank[2] if rank else "",
        "host": said.get("host", ""),
        "code": ended[1] if ended else "",
        "pid": ended[2] if ended else "",
        "signal": (ended[3] or "") if ended else "",
        "first": "1" if one.root else "",
        "error": told[:500],
    }
    words = [f"{name}: {said[name]}" for name in ("host", "rank", "exitcode") if name in said]
    head = "Root Cause (first observed failure)" if one.root else "Failure"
    text = f"{head}: {' '.join(words)} error: {told}"
    return LogFact("exit", text[:MAX_LINE], {k: v for k, v in fields.items() if v})


def _words(fact: LogFact) -> Iterator[LogFact]:
    """The root cause's own error, as the rank's log would tell it."""
    error = fact.fields.get("error", "")
    if "first" in fact.fields and _ERROR.match(error):
        own = {
            name: fact.fields[name]
            for name in ("rank", "local_rank", "host")
            if name in fact.fields
        }
        yield LogFact("error", error, own)


class ErrorFile(NamedTuple):
    """What a worker left: the error's own words, and when (epoch seconds), where it says."""

    message: str
    time: float | None


def error_file(text: str) -> ErrorFile | None:
    """The content of an `error.json`; None where it is none, or not yet whole."""
    try:
        told = json.loads(text)["message"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    if isinstance(told, str):
        return ErrorFile(told[:MAX_LINE], None)
    return ErrorFile(*_inner(told)) if isinstance(told, dict) else None


def _inner(told: dict[str, object]) -> tuple[str, float | None]:
    extra = told.get("extraInfo")
    stamp = str(extra.get("timestamp", "")) if isinstance(extra, dict) else ""
    return str(told.get("message", ""))[:MAX_LINE], float(stamp) if stamp.isdecimal() else None
