"""Figures as people read them: sizes, changes in size."""

from __future__ import annotations

from collections.abc import Sequence

_UNITS = (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10))


def size(value: float) -> str:
    """Bytes for people: `512 B`, `2.00 KiB`, `18.3 GiB`."""
    for name, unit in _UNITS:
        if abs(value) >= unit:
            scaled = value / unit
            return f"{scaled:.{2 if abs(scaled) < 10 else 1 if abs(scaled) < 100 else 0}f} {name}"
    return f"{value:.0f} B"


def signed(value: float) -> str:
    """A change in bytes, with its sign."""
    return f"{'+' if value >= 0 else '-'}{size(abs(value))}"


def change(levels: Sequence[float]) -> str:
    """First and last of a series, and the step between them."""
    return f"{size(levels[0])} -> {size(levels[-1])} ({signed(levels[-1] - levels[0])})"
