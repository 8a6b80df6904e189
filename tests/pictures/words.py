"""Values in their unit and series by their legend, as Grafana would write them."""

from __future__ import annotations

import re
from collections.abc import Mapping

_BYTES = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_THOUSANDS = ("", " k", " M", " G", " T", " P")
_SUFFIX = {
    "celsius": " °C", "watt": " W", "cps": "/s", "cpm": "/min", "reqps": "/s", "hertz": "Hz",
}  # fmt: skip


def value(number: float, unit: str) -> str:
    """`value(0.25, "percentunit")` is `25%`; hertz, watts and the like with three digits."""
    if unit == "percentunit":
        return f"{number * 100:.3g}%" if abs(number) < 9.995 else f"{number * 100:.0f}%"
    if unit in ("bytes", "Bps"):
        return _scaled(number, 1024, _BYTES, sep=" ") + ("/s" if unit == "Bps" else "")
    if unit == "s":
        return _seconds(number)
    if unit in ("short", "hertz"):
        text = _scaled(number, 1000, _THOUSANDS)
        return text + (_SUFFIX["hertz"] if unit == "hertz" else "")
    return f"{number:.4g}{_SUFFIX.get(unit, '')}"


def _scaled(number: float, base: int, names: tuple[str, ...], sep: str = "") -> str:
    size = 0
    while abs(number) >= base and size < len(names) - 1:
        number /= base
        size += 1
    return f"{number:.3g}{sep}{names[size]}"


def _seconds(number: float) -> str:
    size = abs(number)
    for least, unit in ((86400, "d"), (3600, "h"), (120, "min")):
        if size >= least:
            return f"{number / {'d': 86400, 'h': 3600, 'min': 60}[unit]:.3g} {unit}"
    if size >= 1 or number == 0:
        return f"{number:.3g} s"
    return f"{number * 1e3:.3g} ms" if size >= 1e-3 else f"{number * 1e6:.3g} µs"


def legend(pattern: str, labels: Mapping[str, str]) -> str:
    """A legend's pattern filled in; what a series has no label for is left out."""
    text = re.sub(r"\{\{(\w+)\}\}", lambda found: labels.get(found[1], ""), pattern)
    return " ".join(text.split())
