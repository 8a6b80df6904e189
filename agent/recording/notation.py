"""promtool's unit-test notation: `metric{label="v"}` and values such as `0+10x5 _x3 stale`."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from itertools import accumulate, chain, repeat

from gpudiag.probes import Labels
from gpudiag.probes.errors import UsageError

MAX_SAMPLES = 5_000_000
"""Values that one file may expand to; a day of 300 series at 10 s is 2.6 million."""

_NUMBER = r"(?:\d+(?:\.\d*)?(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?|(?i:inf|nan))"
_PLAIN = re.compile(rf"([+-]?{_NUMBER})")
_REPEATED = re.compile(rf"([+-]?{_NUMBER})(?:([+-]{_NUMBER}))?x(\d+)")
_GAPS = re.compile(r"_(?:x(\d+))?")
_COUNT_DIGITS = len(str(MAX_SAMPLES))

_METRIC = re.compile(r"\s*([a-zA-Z_:][a-zA-Z0-9_:]*)?")
_LABEL = re.compile(
    r"""\s*([a-zA-Z_][a-zA-Z0-9_]*)\s*=\s*("(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|`[^`]*`)\s*"""
)
_ESCAPE = re.compile(
    r"""\\(?:([abfnrtv\\"'])|x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))"""
)
_ESCAPED = dict(zip("abfnrtv\\\"'", "\a\b\f\n\r\t\v\\\"'", strict=True))


def values(text: str, limit: int = MAX_SAMPLES) -> list[float | None]:
    """One entry per interval: a number, NaN for `stale`, None for a gap.

    `axN` and `a+bxN` give N+1 values and `_xN` N gaps, as promtool counts them. Raises
    `UsageError` for anything else, and where they are more than `limit`.
    """
    found: list[float | None] = []
    for item in text.split():
        count, expanded = _expand(item)
        if len(found) + count > limit:
            raise UsageError(f"{item[:80]!r} makes more than {limit} values: record it instead")
        found.extend(expanded)
    return found


def _expand(item: str) -> tuple[int, Iterator[float | None]]:
    if item == "stale":
        return 1, iter([math.nan])
    if gaps := _GAPS.fullmatch(item):
        count = _count(gaps[1] or "1")
        return count, repeat(None, count)
    if plain := _PLAIN.fullmatch(item):
        return 1, iter([float(plain[1])])
    if repeated := _REPEATED.fullmatch(item):
        count = _count(repeated[3])
        start, step = float(repeated[1]), float(repeated[2] or 0)
        return count + 1, accumulate(chain([start], repeat(step, count)))
    raise UsageError(f"{item!r} is no value: write 5, 5x3, 0+10x5, 9-1x5, _, _x3 or stale")


def _count(digits: str) -> int:
    # Python itself refuses to read, or to repeat, what is far larger.
    return int(digits) if len(digits) <= _COUNT_DIGITS else MAX_SAMPLES + 1


def series(text: str) -> tuple[str, Labels]:
    """The metric and labels of `metric{label="value",...}`; raises `UsageError`."""
    name = _METRIC.match(text)
    position = name.end() if name else 0
    pairs: dict[str, str] = {}
    if name and name[1]:
        pairs["__name__"] = name[1]
    rest = text[position:].strip()
    if rest:
        if not (rest.startswith("{") and rest.endswith("}")):
            raise UsageError(f'{text!r} is no series: write metric{{label="value"}}')
        _read_labels(rest[1:-1], pairs, text)
    metric = pairs.pop("__name__", "")
    if not metric:
        raise UsageError(f"{text!r} names no metric")
    return metric, tuple(sorted(pairs.items()))


def _read_labels(inside: str, pairs: dict[str, str], text: str) -> None:
    position = 0
    while inside[position:].strip():
        label = _LABEL.match(inside, position)
        if not label:
            raise UsageError(f'{text!r}: expected label="value" at {inside[position:]!r}')
        if label[1] in pairs:
            raise UsageError(f"{text!r}: label {label[1]} stands twice")
        pairs[label[1]] = _unquoted(label[2], text)
        position = label.end()
        if position < len(inside):
            if inside[position] != ",":
                raise UsageError(f"{text!r}: expected a comma at {inside[position:]!r}")
            position += 1


def _unquoted(quoted: str, text: str) -> str:
    if quoted[0] == "`":
        return quoted[1:-1]

    def plain(found: re.Match[str]) -> str:
        if found[1]:
            return _ESCAPED[found[1]]
        code = found[2] or found[3] or found[4]
        if not code or int(code, 16) > 0x10FFFF:
            raise UsageError(f"{text!r}: unknown escape {found[0]}")
        return chr(int(code, 16))

    return _ESCAPE.sub(plain, quoted[1:-1])
