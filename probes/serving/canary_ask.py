"""Asking one server its canary question: from the target to a result, whatever happens."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from gpudiag.probes.serving.canary_answer import named, parsed, streamed, whole
from gpudiag.probes.serving.canary_fetch import Exchange, Outcome, Unanswered
from gpudiag.probes.serving.canary_target import Target
from gpudiag.probes.serving.compare import Answer, unsound

MAX_KEY = 8192


@dataclass(frozen=True, slots=True)
class Result:
    """What came of a request; `seconds`, and `first` to its first piece, where it was answered."""

    outcome: Outcome
    detail: str = ""
    answer: Answer | None = None
    model: str = ""
    version: str = ""
    seconds: float | None = None
    first: float | None = None

    def turned(self, outcome: Outcome, detail: str) -> Result:
        """The same, judged otherwise."""
        return replace(self, outcome=outcome, detail=detail)


def ask(
    target: Target,
    exchange: Exchange,
    *,
    environ: Mapping[str, str] = os.environ,
    monotonic: Callable[[], float] = time.monotonic,
) -> Result:
    """Ask once. Never raises; the key is in no text of the result."""
    key = ""
    try:
        key = _key(target.api_key, environ)
        return _redacted(_asked(target, exchange, key, monotonic), key)
    except Unanswered as reason:
        return _redacted(Result(reason.outcome, str(reason)), key)
    finally:
        exchange.close()


def _asked(target: Target, exchange: Exchange, key: str, monotonic: Callable[[], float]) -> Result:
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    model, version = _model(target, exchange, headers)
    began = monotonic()
    headers["Content-Type"] = "application/json"
    pieces = exchange.ask("POST", target.path(model), headers, target.request(model))
    if target.stream:
        said = streamed(target.api, pieces, monotonic)
    else:
        said = whole(target.api, b"".join(pieces))
    seconds = monotonic() - began
    why = unsound(said.answer)
    return Result(
        "garbage" if why else "ok",
        why,
        said.answer,
        said.model or model,
        said.version or version,
        seconds,
        None if said.first_at is None else said.first_at - began,
    )


def _model(target: Target, exchange: Exchange, headers: Mapping[str, str]) -> tuple[str, str]:
    """Name and version of the model, as configured or as the server's own page has them."""
    if target.model or not target.api.info:
        return target.model, ""
    try:
        page = parsed(b"".join(exchange.ask("GET", target.api.info, headers)))
    except Unanswered as reason:
        # A server behind a gateway may hide the page and still answer.
        if target.api.needs_model or reason.outcome not in ("rejected", "garbage"):
            raise
        return "", ""
    name, version = named(page, target.api.info_model, target.api.info_version)
    if not name and target.api.needs_model:
        raise Unanswered("rejected", f"{target.api.info} names no model; set `model`")
    return name, version


def _key(spelled: str, environ: Mapping[str, str]) -> str:
    if not spelled:
        return ""
    if spelled.startswith("$"):
        key = environ.get(spelled[1:], "")
    else:
        try:
            with Path(spelled[1:]).open(encoding="utf-8") as file:
                key = file.read(MAX_KEY).strip()
        except (OSError, UnicodeDecodeError) as error:
            raise Unanswered("misconfigured", f"cannot read api_key: {error}") from error
    if not key or not (key.isascii() and key.isprintable()):
        raise Unanswered("misconfigured", f"no usable key in {spelled}")
    return key


def _redacted(result: Result, key: str) -> Result:
    if not key:
        return result
    answer = result.answer
    if answer is not None and key in answer.text:
        answer = Answer(text=answer.text.replace(key, "[key]"))
    return replace(result, detail=result.detail.replace(key, "[key]"), answer=answer)
