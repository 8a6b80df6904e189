"""A server's Prometheus page as samples, line by line.

A library's parser refuses a whole page for one bad line; real pages declare a family twice, write
numbers in their own ways, or end in the middle.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Iterator

MAX_SAMPLES = 20_000
"""Of one page: servers with many models have some thousands."""

MAX_LINE = 16_384
"""Characters; a longer one is none of a metric's."""

_LINE = re.compile(
    r'([a-zA-Z_:][\w:]*)(?:\{((?:[^"}]|"(?:[^"\\]|\\.)*")*)\})?'
    r"\s+(\S+)(?:\s+-?\d+(?:\.\d+)?)?\s*(?:# .*)?"
)
"""Name, labels, value; then perhaps a time, and OpenMetrics' exemplar."""

_LABEL = re.compile(r'\s*([a-zA-Z_]\w*)\s*=\s*"((?:[^"\\]|\\.)*)"\s*(?:,|$)')
_ESCAPE = re.compile(r"\\(.)")

Row = tuple[str, tuple[tuple[str, str], ...], float]
"""Name, sorted labels, value."""


def rows(text: str, prefixes: tuple[str, ...] = ("",)) -> Iterator[Row]:
    """The samples of a page whose name begins so, at most `MAX_SAMPLES`; a line that is none is
    passed over.
    """
    count = 0
    # Not splitlines: a label may hold what Unicode calls a line's end, and a list of all costs
    # a multiple of the page.
    for line in io.StringIO(text, newline="\n"):
        if line[0] == "#" or not line.startswith(prefixes) or len(line) > MAX_LINE:
            continue
        row = _row(line.rstrip("\r\n"))
        if row is not None:
            yield row
            count += 1
            if count >= MAX_SAMPLES:
                return


def _row(line: str) -> Row | None:
    found = _LINE.fullmatch(line)
    if found is None:
        return None
    name, labels, number = found.groups()
    pairs = _pairs(labels or "")
    try:
        value = float(number)
    except ValueError:
        return None
    # No server counts to infinity: it is a damaged number, and differences with it are none.
    return (name, pairs, value) if pairs is not None and math.isfinite(value) else None


def _pairs(text: str) -> tuple[tuple[str, str], ...] | None:
    pairs, at = [], 0
    while at < len(text):
        found = _LABEL.match(text, at)
        if found is None:
            return None
        pairs.append((found[1], _ESCAPE.sub(_plain, found[2])))
        at = found.end()
    return tuple(sorted(pairs))


def _plain(escape: re.Match[str]) -> str:
    return "\n" if escape[1] == "n" else escape[1]
