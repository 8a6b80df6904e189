"""The serving APIs that a canary can ask, as the catalogue describes them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Literal

from gpudiag.probes.catalog import load

Gives = Literal["text", "embedding", "label"]


@dataclass(frozen=True, slots=True)
class Api:
    """One API of `canary_apis.toml`: what to send, and JSON pointers into what comes back.

    `body` and `stream` are JSON texts; `info` is a page that names the model, asked where the
    configuration does not. `delta` points to the news of a streamed piece, which with `cumulative`
    is all of the text so far; `whole` to the text that only a last piece has.
    """

    name: str
    gives: Gives
    path: str
    body: str
    answer: tuple[str, ...]
    prompt: str = ""
    label: str = "label"
    score: str = "score"
    model: str = ""
    version: str = ""
    info: str = ""
    info_model: str = ""
    info_version: str = ""
    stream: str = ""
    stream_path: str = ""
    delta: tuple[str, ...] = ()
    whole: str = ""
    cumulative: bool = False

    def changed(self, changes: Mapping[str, Any]) -> Api:
        """The same API, but for what is changed of it."""
        return replace(self, **changes)

    @property
    def needs_model(self) -> bool:
        """Whether its request names the model."""
        return "$model" in self.body or "$model" in self.path


@cache
def apis() -> dict[str, Api]:
    """Every API by name."""
    rows = load.read("canary_apis.toml")["api"]
    return load.keyed((load.build(Api, row) for row in rows), lambda api: api.name)


def resolve(document: Any, pointer: str) -> Any:
    """What a JSON pointer leads to; None where it leads nowhere."""
    for part in pointer.split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        if isinstance(document, dict):
            document = document.get(name)
        elif isinstance(document, list) and name.isdecimal() and int(name) < len(document):
            document = document[int(name)]
        else:
            return None
    return document


def first(document: Any, pointers: tuple[str, ...]) -> Any:
    """What the first pointer that leads to something leads to; an empty text is nothing."""
    found = [resolve(document, pointer) for pointer in pointers]
    return next((f for f in found if f not in (None, "")), next(iter(found), None))
