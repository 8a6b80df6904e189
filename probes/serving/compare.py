"""How alike two answers are, by a stated measure; and what no sound answer is."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby, takewhile
from typing import Literal

Measure = Literal["exact", "normalised", "prefix", "cosine", "label"]

TOLERANCE: dict[Measure, float] = {
    "exact": 0.0,
    "normalised": 0.0,
    # Batching changes sums in their last digits: one token may differ, and all that follow.
    "prefix": 0.2,
    # bf16 beside fp16, or one kernel beside another, moves a cosine by some thousandths.
    "cosine": 0.03,
    "label": 0.05,
}
"""How far below 1 likeness may be, where nothing else is configured."""

DEFAULT: dict[str, Measure] = {"text": "prefix", "embedding": "cosine", "label": "label"}
"""The measure of each kind of answer, where no other is configured."""

MEASURES: dict[str, tuple[Measure, ...]] = {
    "text": ("exact", "normalised", "prefix"),
    "embedding": ("cosine",),
    "label": ("label",),
}
"""The measures that each kind of answer can be compared by."""

REPEATS = 8
BROKEN_SHARE = 0.3
_TOKEN = re.compile(r"\w+|[^\w\s]")


@dataclass(frozen=True, slots=True)
class Answer:
    """What a server said: a text, a vector, or its best label with the score."""

    text: str = ""
    vector: tuple[float, ...] = ()
    label: str = ""
    score: float | None = None


def likeness(measure: Measure, recorded: Answer, given: Answer) -> float:
    """How alike `given` is to `recorded`: 1 the same, 0 nothing in common.

    `exact` and `normalised` (case, spaces and punctuation aside) know only 1 and 0; `prefix` is
    the share of leading tokens that agree; `cosine` is 0 for another dimension or an opposite
    direction; `label` is 0 for another label, else 1 less the difference of the scores (beyond 1:
    in proportion to the recorded one).
    """
    if measure == "cosine":
        return cosine(recorded.vector, given.vector)
    if measure == "label":
        return _label(recorded, given)
    if measure == "exact":
        return float(recorded.text == given.text)
    if measure == "normalised":
        return float(_words(recorded.text) == _words(given.text))
    return prefix_share(recorded.text, given.text)


def cosine(one: Sequence[float], other: Sequence[float]) -> float:
    """The cosine of the angle between two vectors (n,), 0 where they do not fit or are opposed."""
    lengths = math.hypot(*one) * math.hypot(*other)
    if len(one) != len(other) or not lengths:
        return 0.0
    return min(max(sum(a * b for a, b in zip(one, other, strict=True)) / lengths, 0.0), 1.0)


def prefix_share(recorded: str, given: str) -> float:
    """The share of tokens (words and signs) at the start that agree, of the recorded ones.

    One text may stop earlier than the other by its limit: the rest is not held against it, once
    half of the recorded one is there.
    """
    one, other = _TOKEN.findall(recorded), _TOKEN.findall(given)
    if not one or not other:
        return float(one == other)
    same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))
    return same / max(min(len(one), len(other)), math.ceil(len(one) / 2))


def unsound(answer: Answer) -> str:
    """Why an answer is none, whatever was asked; empty where it may be one."""
    figures = (*answer.vector, *(() if answer.score is None else (answer.score,)))
    if not all(map(math.isfinite, figures)):
        return "NaN or infinite values in the output"
    if answer.vector:
        return "" if any(answer.vector) else "all values of the output vector are 0"
    if answer.label or answer.score is not None:
        return ""
    return _unsound_text(answer.text)


def _unsound_text(text: str) -> str:
    if not text.strip():
        return "an empty text"
    if text.count("\ufffd") > BROKEN_SHARE * len(text):
        return "a text that is mostly no characters"
    tokens = _TOKEN.findall(text)
    run, token = max(((len(list(same)), word) for word, same in groupby(tokens)), default=(0, ""))
    if run >= REPEATS:
        return f"the same token {run} times over: {token * min(run, REPEATS)}"
    return ""


def _label(recorded: Answer, given: Answer) -> float:
    if recorded.label != given.label:
        return 0.0
    if recorded.score is None or given.score is None:
        return 1.0
    apart = abs(recorded.score - given.score) / max(1.0, abs(recorded.score))
    return max(1.0 - apart, 0.0)


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", unicodedata.normalize("NFKC", text).casefold())
