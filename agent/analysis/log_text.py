"""Log text as it was before loggers wrapped it: for messages that run over lines."""

from __future__ import annotations

from gpudiag.probes.logs.prefix import EDGE, without_prefix


def compact(first: str, rest: list[str]) -> str:
    """The lines as one text without any white space; `first` already begins where it matters.

    Wrappers break between and within words, so only a text without white space reads the same
    whatever they did.
    """
    parts = [first.rstrip(EDGE), *map(without_prefix, rest)]
    return "".join("".join(parts).split())
