"""Functions of other modules replaced while the hooks are attached, and put back after."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Patches:
    """What was replaced where. A replacement that somebody wrapped since is left alone."""

    def __init__(self) -> None:
        self._undo: list[tuple[Any, str, Any, Any]] = []

    def replace(self, owner: Any, name: str, make: Callable[[Any], Any]) -> None:
        """Put `make(original)` in place of `owner.name`; nothing where there is no such name."""
        original = vars(owner).get(name)
        if original is None:
            return
        replacement = make(original)
        setattr(owner, name, replacement)
        self._undo.append((owner, name, original, replacement))

    def undo(self) -> None:
        """Put every original back, the last first."""
        while self._undo:
            owner, name, original, replacement = self._undo.pop()
            if vars(owner).get(name) is replacement:
                setattr(owner, name, original)
