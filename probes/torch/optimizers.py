"""One step is every optimizer in use once: which optimizer's step ends the training step."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

# WGAN steps its critic 5 times a step, some recipes 10; beyond this the others went out of use.
UNUSED_AFTER = 32


class Optimizers:
    """Calls `ended` when all optimizers in use stepped at least once since the last time.

    Gradient accumulation needs nothing: only its last micro-batch steps. Of two optimizers that
    take turns, two turns are one step. One that steps `UNUSED_AFTER` times while another does
    not ends the wait for that other. With `only`, the rest do not count at all. A loop that calls
    `gd.step()` itself has `manual` set: then optimizers say nothing.
    """

    def __init__(self, ended: Callable[[], object]) -> None:
        self.manual = False
        self._ended = ended
        self._sole = 0
        self._only: set[int] = set()
        self._known: dict[int, weakref.ref[Any]] = {}
        self._stepped: dict[int, int] = {}

    def name(self, optimizers: tuple[Any, ...]) -> None:
        """Count these alone."""
        for optimizer in optimizers:
            self._only.add(id(optimizer))
            self._learn(optimizer)

    def stepped(self, optimizer: Any, _args: object, _kwargs: object) -> None:
        """The global hook after `Optimizer.step`."""
        if id(optimizer) != self._sole:
            self._one_of_several(optimizer)
        elif not self.manual:
            self._ended()

    def known(self) -> list[Any]:
        """The optimizers in use that are still alive."""
        return [found for ref in list(self._known.values()) if (found := ref()) is not None]

    def _one_of_several(self, optimizer: Any) -> None:
        key = id(optimizer)
        if self._only and key not in self._only:
            return
        if key not in self._known:
            self._learn(optimizer)
        self._stepped[key] = turns = self._stepped.get(key, 0) + 1
        if turns >= UNUSED_AFTER:
            self._keep(set(self._stepped))
        if len(self._stepped) == len(self._known):
            self._stepped.clear()
            if not self.manual:
                self._ended()

    def _learn(self, optimizer: Any) -> None:
        key = id(optimizer)
        self._known[key] = weakref.ref(optimizer, lambda _: self._forget(key))
        self._keep(set(self._known))

    def _forget(self, key: int) -> None:
        self._only.discard(key)
        self._stepped.pop(key, None)
        self._keep(set(self._known) - {key})

    def _keep(self, keys: set[int]) -> None:
        self._known = {key: ref for key, ref in self._known.items() if key in keys}
        self._sole = next(iter(self._known)) if len(self._known) == 1 else 0
