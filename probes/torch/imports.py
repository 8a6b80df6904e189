"""Have something done when a module was imported, without importing it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any


class Waiting(MetaPathFinder):
    """Waits in front of the import system for the module `name`, once."""

    def __init__(self, name: str, then: Callable[[Any], object]) -> None:
        self._name = name
        self._then = then

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,  # noqa: ARG002 - the protocol of importlib
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        """The spec that the others find, its loader calling back when it is done."""
        if fullname != self._name:
            return None
        self.stop()
        spec = find_spec(fullname)
        if spec is not None and spec.loader is not None:
            self._follow(spec.loader)
        return spec

    def stop(self) -> None:
        """Wait no more."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def _follow(self, loader: Any) -> None:
        execute, then = loader.exec_module, self._then

        def exec_module(module: ModuleType) -> None:
            execute(module)
            then(module)

        loader.exec_module = exec_module


def when_imported(name: str, then: Callable[[Any], object]) -> Waiting | None:
    """Call `then(module)` after the import of `name`: now, where it is imported already."""
    module = sys.modules.get(name)
    if module is not None:
        then(module)
        return None
    waiting = Waiting(name, then)
    sys.meta_path.insert(0, waiting)
    return waiting
