"""How an implied cause is written, and the names of the causes that no symptom documents."""

from __future__ import annotations

from dataclasses import dataclass

GIB = 2**30
MIB = 2**20

STARTUP = "startup-oom"
UNDETERMINED = "undetermined"
OTHERS = "memory-held-by-others"
LIMIT = "own-memory-limit"
OUTSIDE = "memory-outside-torch"
DRIVER_LIMIT = "driver-refused"
ABSURD = "absurd-request"


@dataclass(frozen=True, slots=True)
class Meaning:
    """One possible cause: the symptom it belongs to ("" where none is documented), and why.

    `todo` is the next step and `missing` what would settle it.
    """

    symptom: str
    cause: str
    confidence: float
    why: str
    todo: str = ""
    missing: tuple[str, ...] = ()


def size(value: float | None) -> str:
    """Bytes for people, in the units of the messages."""
    if value is None:
        return "an unknown amount"
    if value >= GIB:
        return f"{value / GIB:.2f} GiB"
    return f"{value / MIB:.2f} MiB" if value >= MIB else f"{value:.0f} bytes"
