"""Durations and sizes as people write them: `10s`, `1m30s`, `2GiB`, always with a unit."""

from __future__ import annotations

import re

from gpudiag.probes.errors import UsageError

_SECONDS = {"ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_BYTES = {"B": 1} | {f"{p}iB": 1024**n for n, p in enumerate("KMGT", start=1)}
LONGEST = 36525 * 86400.0
"""Seconds of the longest duration, a century: nothing that sleeps or adds up times takes more."""

MOST = 2**60
"""Bytes of the largest size, one EiB."""

_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*(B|[KMGT]iB)")


def seconds(text: str) -> float:
    """Seconds of `90s`, `1m30s`, `250ms`, `2h`, `30d`; raises `UsageError` for anything else."""
    parts = _DURATION.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise UsageError(f"{text!r} is not a duration: write a number with ms, s, m, h or d")
    total = sum(float(number) * _SECONDS[unit] for number, unit in parts)
    if total > LONGEST:
        raise UsageError(f"{text[:40]!r} is too long: the longest duration is 36525d")
    return total


def size(text: str) -> int:
    """Bytes of `512MiB`, `2GiB`, `0B`; raises `UsageError` for anything else."""
    found = _SIZE.fullmatch(text)
    if not found:
        raise UsageError(f"{text!r} is not a size: write a number with B, KiB, MiB, GiB or TiB")
    total = float(found[1]) * _BYTES[found[2]]
    if total > MOST:
        raise UsageError(f"{text[:40]!r} is too large: the largest size is 1048576TiB")
    return int(total)


def spell_seconds(value: float) -> str:
    """The shortest spelling that `seconds` reads back: 5400 -> `1h30m`."""
    if value < 1.0 and value > 0.0:
        return f"{value * 1000:g}ms"
    whole, parts = value, []
    for unit in ("d", "h", "m"):
        count, whole = divmod(whole, _SECONDS[unit])
        if count:
            parts.append(f"{count:g}{unit}")
    if whole or not parts:
        parts.append(f"{whole:g}s")
    return "".join(parts)


def spell_bytes(value: float) -> str:
    """A size for people, in the largest unit that keeps it above one: `1.5 GiB`."""
    scale = max((n for n in _BYTES.values() if abs(value) >= n), default=1)
    unit = next(name for name, n in _BYTES.items() if n == scale)
    return f"{value / scale:.3g} {unit}"
