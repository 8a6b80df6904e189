"""Takes secrets and argument values out of what leaves the node."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from gpudiag.probes.manifest.taking import SECRET

GONE = "[redacted]"
SHORTEST = 4
"""Characters of a secret that is looked for as it is: a shorter one would empty every text."""

_KNOWN = "|".join(
    (
        r"(?:sk|hf|glpat|nvapi|xox[abeprs]|dckr_pat|npm|pypi)[-_][A-Za-z0-9._-]{8,}",
        r"gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}",
        r"(?:AKIA|ASIA)[0-9A-Z]{16}|AIza[0-9A-Za-z_-]{30,}",
        r"eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*",
        r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)",
    )
)
"""The shapes in which vendors hand keys out, as their documentation has them."""

_WORD = (
    r"[\"']?[\w.-]*(?:token(?!s)|secret|passw|api[-_]?key|credential|authorization|cookie)[\w.-]*"
)
_VALUE = r"(?:\"[^\"]*\"|'[^']*'|[^\s,;}\]\"']+)"

_RULES: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(_KNOWN, re.DOTALL), GONE),
    (re.compile(r"\b(Bearer|Basic)\s+[\w.~+/=-]+", re.IGNORECASE), rf"\1 {GONE}"),
    # Of an address there stay scheme and host: path and query are where webhooks carry their key.
    (re.compile(r"\b(\w+://)(?:[^/@\s\"']*@)?([^/?#\s\"']+)[^\s\"'<>)\]]*"), r"\1\2/" + GONE),
    (re.compile(rf"({_WORD}[\"']?\s*[=:]\s*)(?![\d.]+\b){_VALUE}", re.IGNORECASE), rf"\1{GONE}"),
    # The value of an option, and of a variable in an environment; figures stay.
    (re.compile(rf"(?<!\S)(--?[A-Za-z][\w-]*=)(?![\d.]+\b){_VALUE}"), rf"\1{GONE}"),
    (re.compile(r"(?<!\S)(--[A-Za-z][\w-]*\s+)(?!-|[\d.]+\b)[^\s\"']+"), rf"\1{GONE}"),
    (re.compile(rf"\b([A-Z][A-Z0-9]*_[A-Z0-9_]+=)(?![\d.]+\b){_VALUE}"), rf"\1{GONE}"),
)


class Redactor:
    """Replaces what it was told and what looks like a secret; the same text in, the same out."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        known = {text.strip() for text in secrets}
        longest = sorted((text for text in known if len(text) >= SHORTEST), key=len, reverse=True)
        self._told = re.compile("|".join(map(re.escape, longest))) if longest else None

    def text(self, text: str) -> str:
        """`text` without secrets; figures, names and hosts stay."""
        if self._told:
            text = self._told.sub(GONE, text)
        for pattern, instead in _RULES:
            text = pattern.sub(instead, text)
        return text

    def plain(self, value: Any) -> Any:
        """JSON's kinds of value, all through; whatever stands under a secret's name is gone."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {self.text(str(key)): self._under(str(key), v) for key, v in value.items()}
        if isinstance(value, list | tuple):
            return [self.plain(one) for one in value]
        return value

    def _under(self, key: str, value: Any) -> Any:
        return (
            GONE if isinstance(value, str) and value and SECRET.search(key) else self.plain(value)
        )


def environment_secrets(environ: Mapping[str, str]) -> list[str]:
    """The values of the variables whose names say that they are secret."""
    return [value for name, value in environ.items() if SECRET.search(name)]
