"""The words that every section of the configuration is made of."""

from __future__ import annotations

import msgspec


class Duration(float):
    """Seconds, written with a unit."""


class Size(int):
    """Bytes, written with a unit."""


class Section(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A section of the file: unknown keys are errors."""


class ProbeSettings(Section, frozen=True):
    """One probe: whether it runs (null: where the role allows), how often (null: its own)."""

    enabled: bool | None = None
    cadence: Duration | None = None
