"""The configuration as it may be handed on: every key, without secrets, arguments and bodies."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from gpudiag.agent import files
from gpudiag.agent.bundling.redact import GONE, Redactor
from gpudiag.probes.errors import UsageError

_SECRET = frozenset({"token", "key", "api_key", "body", "prompt", "expect", "argv", "undo"})
_SECRETS_WITHIN = frozenset({"headers", "args"})
"""Keys of the configuration whose value, or whose every value within, may be a secret."""

_SAFE = frozenset({"", "null", "true", "false"})


def secrets_in(text: str) -> list[str]:
    """Every secret of a configuration, and what stands in the files that it names."""
    whole = _read(text)
    found = list(_secret(whole, "", hidden=False))
    for value in list(found):
        if value.startswith("@"):
            with contextlib.suppress(UsageError):
                found.append(files.text(Path(value[1:])).strip())
    return found


def redacted(text: str, redactor: Redactor) -> str:
    """The configuration as YAML without its comments; raises `UsageError` where it is none."""
    plain: str = yaml.safe_dump(_clean(_read(text), "", redactor), sort_keys=False)
    return plain


def _read(text: str) -> Any:
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise UsageError(f"the configuration is no YAML: {error}") from error


def _secret(value: Any, key: str, *, hidden: bool) -> Iterator[str]:
    if isinstance(value, dict):
        for name, one in value.items():
            inside = hidden or name in _SECRET or key in _SECRETS_WITHIN
            where = "webhooks.url" if (key, name) == ("webhooks", "url") else str(name)
            yield from _secret(one, where, hidden=inside)
    elif isinstance(value, list):
        # Which command is run may be known; with what, not.
        first = 1 if key in {"argv", "undo"} else 0
        for one in value[first:]:
            yield from _secret(one, key, hidden=hidden)
    elif hidden and isinstance(value, str) and value not in _SAFE:
        yield value
    elif key == "webhooks.url" and isinstance(value, str):
        yield urlsplit(value).path
        yield urlsplit(value).query


def _clean(value: Any, key: str, redactor: Redactor) -> Any:
    if isinstance(value, dict):
        if key in _SECRETS_WITHIN:
            return {name: _hidden(one) for name, one in value.items()}
        return {name: _clean(one, str(name), redactor) for name, one in value.items()}
    if isinstance(value, list):
        if key in {"argv", "undo"}:
            return [*value[:1], *(GONE for _ in value[1:])]
        return [_clean(one, key, redactor) for one in value]
    if key in _SECRET:
        return _hidden(value)
    return redactor.plain(value)


def _hidden(value: Any) -> Any:
    named = isinstance(value, str) and value.startswith("@")
    return value if named or not isinstance(value, str) or value in _SAFE else GONE
