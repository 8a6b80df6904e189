"""What was done about a cause before, and what came of it."""

from __future__ import annotations

from typing import Literal

import msgspec

Outcome = Literal["verified", "not_verified", "worse", "failed"]


class Tried(msgspec.Struct, frozen=True, kw_only=True):
    """One action that followed the same cause: of so many `times` it `helped` in some.

    `last` is how it came out the last time, at `last_at` (epoch seconds), on `target`.
    """

    action: str
    times: int
    helped: int
    last: Outcome
    last_at: float
    target: str
