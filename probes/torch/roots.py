"""Where a name in the program ends a chain of holders: local variables and globals."""

from __future__ import annotations

import inspect
import linecache
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

OWN = str(Path(__file__).parent)


class Named(NamedTuple):
    """A name and where it was first assigned."""

    name: str
    place: str


class Roots:
    """The names of this moment. Holds no object that a name stands for, only its `id`."""

    def __init__(self) -> None:
        self._locals: dict[int, tuple[str, CodeType, int]] = {}
        self._modules: dict[int, Any] = {}
        for frame in _frames():
            self._take(frame)
        for module in list(sys.modules.values()):
            namespace = getattr(module, "__dict__", None)
            if namespace is not None:
                self._modules[id(namespace)] = getattr(module, "__file__", None)

    def local(self, found: Any) -> Named | None:
        """The local variable that is this object."""
        told = self._locals.get(id(found))
        return None if told is None else Named(told[0], _assigned(*told))

    def attribute(self, holder: Any, child: Any) -> Named | None:
        """The global that is `child`, where `holder` is the namespace of a module."""
        if id(holder) in self._modules and isinstance(holder, dict):
            file = self._modules[id(holder)]
            return next(
                (_global(key, file) for key, value in holder.items() if value is child), None
            )
        return None

    def _take(self, frame: FrameType) -> None:
        code = frame.f_code
        if not code.co_flags & inspect.CO_OPTIMIZED:
            return
        names = frame.f_locals
        for name, value in names.items():
            self._locals.setdefault(id(value), (name, code, frame.f_lineno))
        # Before 3.13 the frame keeps this copy of its variables, so they would outlive their del.
        if sys.version_info < (3, 13):
            names.clear()


def _frames() -> Iterator[FrameType]:
    """Every Python frame of every thread but those of the hooks, innermost first."""
    for top in sys._current_frames().values():
        frame: FrameType | None = top
        while frame is not None:
            if not frame.f_code.co_filename.startswith(OWN):
                yield frame
            frame = frame.f_back


def _assigned(name: str, code: CodeType, otherwise: int) -> str:
    lines = [line for _, _, line in code.co_lines() if line]
    first, last = code.co_firstlineno, max(lines, default=otherwise)
    return _place(name, code.co_filename, range(first, last + 1), otherwise)


def _global(name: Any, file: str | None) -> Named:
    if file is None:
        return Named(str(name), "the interactive session")
    return Named(str(name), _place(str(name), file, range(1, len(linecache.getlines(file)) + 1), 0))


def _place(name: str, file: str, lines: range, otherwise: int) -> str:
    word = re.escape(name)
    assigns = re.compile(rf"(?<![\w.]){word}\s*(:[^=]*)?=(?!=)|^\s*(class|def)\s+{word}\b")
    for line in lines:
        if assigns.search(linecache.getline(file, line)):
            return f"{_short(file)}:{line}"
    return f"{_short(file)}:{otherwise}" if otherwise else _short(file)


def _short(file: str | None) -> str:
    return "built in" if file is None else Path(file).name
