"""Log text without what loggers put before it: ranks, times, levels and process names."""

from __future__ import annotations

import re

_PREFIX = re.compile(
    r"\s*(?:"
    r"\[[^\]\n]{1,80}\]:?(?:<std(?:err|out)>:?)?"  # [rank1]: [core.py:515] [1,3]<stderr>:
    r"|\([^()\n]{0,60}\bpid=\d+[^()\n]{0,60}\)"  # (EngineCore_DP0 pid=6940)
    r"|\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[.,\d]{0,12}(?:Z|[+-]\d\d:?\d\d)?"
    r"|(?:\d\d-\d\d )?\d\d:\d\d:\d\d[.,\d]{0,12}"
    r"|(?:DEBUG|INFO|WARN|WARNING|ERROR|CRITICAL|FATAL)\b:?"
    r"|\d{1,5}:(?=\s)"  # srun --label
    r"|[\w.\-]{1,60} +\|(?=\s)"  # docker compose
    r"|[|│>](?=\s)"
    r"|-(?=\s)"
    r")"
)
_MOST_PREFIXES = 10
EDGE = " \t\r\f\v│|"
"""What wrappers leave at the ends of a line."""


def without_prefix(line: str) -> str:
    """The line without the ranks, times, levels and process names that loggers put before it."""
    at = 0
    for _ in range(_MOST_PREFIXES):
        found = _PREFIX.match(line, at)
        if not found:
            break
        at = found.end()
    return line[at:].strip(EDGE)
