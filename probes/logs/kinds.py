"""The kinds of log lines that are known, as `patterns.toml` lists them, ready to be asked."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from gpudiag.probes.errors import UsageError


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of line; `chatter` comes again and again while all is well."""

    name: str
    needles: tuple[str, ...]
    pattern: re.Pattern[str]
    chatter: bool = False


@cache
def kinds() -> tuple[Kind, ...]:
    """All kinds, in the order in which they are asked."""
    text = Path(__file__).with_name("patterns.toml").read_text("utf-8")
    return tuple(_kind(row) for row in tomllib.loads(text)["kind"])


@cache
def needles() -> re.Pattern[bytes]:
    """Finds any needle of any kind: the one question that most lines are asked."""
    words = sorted({needle for kind in kinds() for needle in kind.needles})
    # A word that holds another one adds nothing.
    least = [w for w in words if not any(o != w and o in w for o in words)]
    return re.compile("|".join(map(re.escape, least)).encode())


@cache
def chatter() -> frozenset[str]:
    """Names of the kinds that are no news."""
    return frozenset(kind.name for kind in kinds() if kind.chatter)


def _kind(row: dict[str, object]) -> Kind:
    name, words, patterns = row.get("name"), row.get("needles"), row.get("patterns")
    if not (isinstance(name, str) and isinstance(words, list) and isinstance(patterns, list)):
        raise UsageError(f"patterns.toml: {row} needs a name, needles and patterns")
    try:
        pattern = re.compile("|".join(f"(?:{text})" for text in patterns))
    except re.error as error:
        raise UsageError(f"patterns.toml: {name}: {error}") from error
    return Kind(name, tuple(words), pattern, bool(row.get("chatter")))
