"""From what a server sent to the answer in it, in one piece or streamed."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from gpudiag.probes.serving.canary_api import Api, first, resolve
from gpudiag.probes.serving.canary_fetch import BUSY, Unanswered
from gpudiag.probes.serving.compare import Answer


class Said(NamedTuple):
    """The answer, the model that it names, and when its first piece came (where streamed)."""

    answer: Answer
    model: str = ""
    version: str = ""
    first_at: float | None = None


def whole(api: Api, raw: bytes) -> Said:
    """The answer in one piece. Raises `Unanswered` where there is none in it."""
    document = parsed(raw)
    answer = _READ[api.gives](api, first(document, api.answer))
    model, version = named(document, api.model, api.version)
    return Said(answer, model, version)


def streamed(api: Api, pieces: Iterable[bytes], now: Callable[[], float]) -> Said:
    """The text that server-sent events bring. Raises `Unanswered` where its end is missing."""
    text, first_at, ended = "", None, False
    model = version = ""
    for data in _events(pieces):
        if data == b"[DONE]":
            ended = True
            break
        document = parsed(data)
        _refuse_error(document)
        model, version = (
            new or old
            for new, old in zip(
                named(document, api.model, api.version), (model, version), strict=True
            )
        )
        news = _text(first(document, api.delta))
        first_at = now() if news and first_at is None else first_at
        text = news if api.cumulative and news else text + news
        if api.whole and resolve(document, api.whole) is not None:
            text, ended = _text(resolve(document, api.whole)), True
    if not ended:
        raise Unanswered("truncated", "the stream ended before its last piece")
    return Said(Answer(text=text), model, version, first_at)


def parsed(raw: bytes) -> Any:
    """The JSON document; NaN, which some servers write although JSON has none, is a number."""
    try:
        return json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise Unanswered("garbage", f"no JSON: {raw[:80]!r}") from error


def named(document: Any, *pointers: str) -> tuple[str, ...]:
    """The texts that the pointers lead to, "" for each that leads to none."""
    found = (resolve(document, pointer) if pointer else "" for pointer in pointers)
    return tuple(text[:200] if isinstance(text, str) else "" for text in found)


def _events(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The data of each server-sent event; what no line end closes is not yet one."""
    rest = b""
    for piece in pieces:
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            if line.startswith(b"data:"):
                yield line[5:].strip()


def _refuse_error(document: Any) -> None:
    error = resolve(document, "/error")
    if error:
        text = json.dumps(error)[:200]
        raise Unanswered("busy" if BUSY.search(text) else "server_error", f"in its stream: {text}")


def _of_text(_api: Api, found: Any) -> Answer:
    return Answer(text=_text(found[0] if isinstance(found, list) and found else found))


def _text(found: Any) -> str:
    if found is None:
        return ""
    if not isinstance(found, str):
        raise Unanswered("garbage", f"a text was expected, not {json.dumps(found)[:80]}")
    return found


def _of_embedding(_api: Api, found: Any) -> Answer:
    if not isinstance(found, list) or not found:
        raise Unanswered("garbage", f"a vector was expected, not {json.dumps(found)[:80]}")
    return Answer(vector=tuple(_number(value) for value in _flat(found)))


def _flat(values: list[Any]) -> Iterator[Any]:
    for value in values:
        if isinstance(value, list):
            yield from _flat(value)
        else:
            yield value


def _of_label(api: Api, found: Any) -> Answer:
    """The entry with the best score: of labels, or of the documents of a reranker."""
    rows = found if isinstance(found, list) else [found]
    # TEI nests the labels of each input where several inputs may come.
    if rows and all(isinstance(row, list) for row in rows):
        rows = rows[0]
    entries = [_entry(api, row) for row in rows]
    # A NaN loses every comparison, and would pass unseen behind a good score.
    lost = [entry for entry in entries if entry.score is not None and math.isnan(entry.score)]
    best = lost or sorted(entries, key=lambda e: e.score or 0.0, reverse=True)
    if not best:
        raise Unanswered("garbage", "no label came")
    return best[0]


def _entry(api: Api, row: Any) -> Answer:
    if isinstance(row, str):
        return Answer(label=row)
    if not isinstance(row, dict) or not {api.label, api.score} & row.keys():
        raise Unanswered("garbage", f"a label was expected, not {json.dumps(row)[:80]}")
    label = str(row.get(api.label, ""))
    if api.score not in row:
        return Answer(label=label)
    score = row[api.score]
    figures = [_number(one) for one in score] if isinstance(score, list) else [_number(score)]
    return Answer(label=label, score=math.nan if any(map(math.isnan, figures)) else max(figures))


def _number(value: Any) -> float:
    # Writers that keep to JSON write NaN as null.
    if value is None:
        return math.nan
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise Unanswered("garbage", f"a number was expected, not {json.dumps(value)[:80]}")
    return float(value)


_READ: dict[str, Callable[[Api, Any], Answer]] = {
    "text": _of_text,
    "embedding": _of_embedding,
    "label": _of_label,
}
