"""Nothing of ours may raise into training: failures are counted and told once."""

from __future__ import annotations

import functools
from collections import Counter, deque
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


class Failures:
    """What went wrong in the hooks of this process, by the place where it did."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.untold: deque[str] = deque(maxlen=32)

    def note(self, place: str, error: Exception) -> None:
        """Count `error`; the first at each place waits in `untold` to be sent as an event."""
        self.counts[place] += 1
        if self.counts[place] == 1:
            self.untold.append(f"{place}: {type(error).__name__}: {error}"[:500])


FAILURES = Failures()


def guarded(function: Callable[P, R]) -> Callable[P, R | None]:
    """`function` that gives None where it would have raised; `SystemExit` passes."""
    place = getattr(function, "__qualname__", repr(function))

    @functools.wraps(function)
    def safe(*args: P.args, **kwargs: P.kwargs) -> R | None:
        try:
            return function(*args, **kwargs)
        except Exception as error:
            FAILURES.note(place, error)
            return None

    return safe
