"""Reads the Accept headers of HTTP: what a client prefers, by its q-values."""

from __future__ import annotations


def quality(header: str, wanted: str) -> float:
    """The highest q at which the header names `wanted` itself, not by a wildcard; else 0."""
    best = 0.0
    for item in header.lower().split(","):
        name, *parameters = (part.strip() for part in item.split(";"))
        if name == wanted:
            best = max(best, _q(parameters))
    return best


def accepts(header: str, coding: str) -> bool:
    """Whether an Accept-Encoding header allows that coding."""
    return quality(header, coding) > 0.0


def _q(parameters: list[str]) -> float:
    for parameter in parameters:
        key, _, value = parameter.partition("=")
        if key.strip() == "q":
            try:
                return float(value)
            except ValueError:
                return 0.0
    return 1.0
