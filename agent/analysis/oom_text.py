"""Out-of-memory messages in any text: torch's of every release, the driver's, servers', the host's.

Wrapped, prefixed, truncated and repeated messages are read as one. Pure and bounded: no text
makes it raise, and its time grows with the text's length alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from gpudiag.agent.analysis import oom_fields
from gpudiag.agent.analysis.log_text import compact
from gpudiag.agent.analysis.oom_fields import Figures
from gpudiag.probes.logs.prefix import without_prefix

Kind = Literal["torch", "async", "assert", "driver", "library", "host", "refusal"]

MAX_CHARS = 4000
MAX_LINES = 40
_EXCERPT = 240
# A start without its head, as "Tried to allocate", belongs to a message that began just before.
_HEAD = 200

_NEEDLES = ("emory", "EMORY", "llocat", "ALLOC", "NVML_SUCCESS", "seq len")
_STARTS: tuple[tuple[Kind, str], ...] = (
    ("torch", r"\b(?:CUDA|HIP|XPU|NPU|MUSA|GCU|MLU|SUPA)\s+out\s+of\s+memory\b"),
    ("async", r"\bAllocation\s+on\s+device\s+\d+\s+would\s+exceed\s+allowed\s+memory"),
    ("assert", r"\bNVML_SUCCESS\s*==\s*r\s+INTERNAL\s+ASSERT\s+FAILED"),
    (
        "driver",
        r"\b(?:CUDA|HIP)\s+(?:driver\s+)?error:\s*out\s+of\s+memory"
        r"|\bCuda\s+failure\s+(?:\d+\s+)?'out\s+of\s+memory'"
        r"|\bCUDA_ERROR_OUT_OF_MEMORY\b|\bcudaErrorMemoryAllocation\b|\bhipErrorOutOfMemory\b",
    ),
    ("library", r"\b(?:(?:CU|HIP|ROC|MIOPEN)[A-Z]*_STATUS_ALLOC_FAILED|CUFFT_ALLOC_FAILED)\b"),
    ("host", r"\bDefaultCPUAllocator:\s*(?:can't\s+allocate|not\s+enough)\s+memory"),
    (
        "refusal",
        r"\bFree\s+memory\s+on\s+device\b"
        r"|\bNo\s+available\s+memory\s+for\s+the\s+cache\s+blocks"
        r"|\bmax\s+seq\s+len\s*\(\d+\)\s+is\s+larger\s+than\s+the\s+maximum\s+number\s+of\s+tokens"
        r"|\bTo\s+serve\s+at\s+least\s+one\s+request\s+with\s+the\b"
        r"|\bNot\s+enough\s+memory\.\s+Please\s+try\b",
    ),
)
_BODY = r"\bTried\s+to\s+allocate\s+[\dm]|\bis\s+allocated\s+by\s+PyTorch\b|\balready\s+allocated;"
_START = re.compile("|".join([*(f"(?P<{k}>{p})" for k, p in _STARTS), f"(?P<body>{_BODY})"]))
_RANK = re.compile(r"\[rank\s?(\d{1,6})\]|\brank[ =:]{1,2}(\d{1,6})", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class OomText:
    """One message: what kind, where (`line` counts from 1), its figures and its own words.

    `compact` is the whole message without white space; `times` how often the same came, and
    `ranks` who said it, where the log's prefix tells.
    """

    kind: Kind
    line: int
    figures: Figures
    excerpt: str
    compact: str
    times: int = 1
    ranks: tuple[str, ...] = ()


def find(text: str) -> list[OomText]:
    """Every distinct message of the text, in order; repeats of one are counted, not listed."""
    found: dict[tuple[Kind, Figures, str], OomText] = {}
    starts = list(_starts(text))
    for index, (kind, start, line) in enumerate(starts):
        end = starts[index + 1][1] if index + 1 < len(starts) else len(text)
        one = _message(kind, text, start, end, line)
        # Without figures the words themselves tell one from another.
        key = kind, one.figures, "" if one.figures else one.compact[:80]
        known = found.get(key)
        if known:
            ranks = tuple(dict.fromkeys((*known.ranks, *one.ranks)))
            one = replace(known, times=known.times + 1, ranks=ranks)
        found[key] = one
    return list(found.values())


def _starts(text: str) -> Iterator[tuple[Kind, int, int]]:
    """Kind, offset and line number of each message's beginning."""
    at, number, last = 0, 0, -_HEAD
    torch_until = -1
    for line in text.splitlines(keepends=True):
        number += 1
        begin, at = at, at + len(line)
        if not any(needle in line for needle in _NEEDLES):
            continue
        # A wrapped beginning ends on the next line.
        for match in _START.finditer(text, begin, min(at + _HEAD, len(text))):
            if match.start() >= at or match.start() <= last:
                continue
            kind = match.lastgroup
            if kind == "body" and match.start() < torch_until:
                continue
            last = match.start()
            torch_until = last + MAX_CHARS if kind in ("torch", "body") else -1
            yield _kind(kind), last, number


def _kind(group: str | None) -> Kind:
    return next((kind for kind, _ in _STARTS if kind == group), "torch")


def _message(kind: Kind, text: str, start: int, end: int, line: int) -> OomText:
    first, *rest = text[start : min(end, start + MAX_CHARS)].splitlines()[:MAX_LINES]
    whole = compact(first, rest)
    begin = text.rfind("\n", max(start - 1000, 0), start) + 1
    before = text[max(begin, start - 1000) : start]
    rank = _RANK.search(before)
    return OomText(
        kind=kind,
        line=line,
        figures=oom_fields.read(whole),
        excerpt=without_prefix(before + first)[:_EXCERPT],
        compact=whole,
        ranks=(rank[1] or rank[2],) if rank else (),
    )
