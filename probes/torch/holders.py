"""Who keeps an object alive: from it up through containers to a name in the program."""

from __future__ import annotations

import gc
from collections import defaultdict, deque
from collections.abc import Callable, Mapping
from types import CellType, FrameType, FunctionType
from typing import Any

from gpudiag.probes.torch.roots import Named, Roots

DEPTH = 10
WIDTH = 64
NO_HOLDER = "no Python object: held in C++, as by an autograd graph"


class Holders:
    """One search upward from many objects at once: each level is one pass over all objects that
    the collector tracks (tens of milliseconds in a large process), so time is looked at between.
    """

    def __init__(self, targets: list[Any], ignored: list[Any], clock: Callable[[], float]) -> None:
        self.names: dict[int, str] = {}
        self.cut_short = False
        self._clock = clock
        self._roots = Roots()
        self._targets = {id(target) for target in targets}
        self._nodes: dict[int, Any] = {id(target): target for target in targets}
        self._down: defaultdict[int, list[int]] = defaultdict(list)
        self._frontier = list(targets)
        own = [targets, ignored, *ignored, self._nodes, self._down, vars(self), self]
        self._own = {id(container) for container in own}

    def search(self, end: float) -> dict[int, str]:
        """The chain of each target by `id`, as far as found before `end` of the clock."""
        for target in self._frontier:
            self._named(target)
        for depth in range(DEPTH):
            if not self._frontier or self._targets <= self.names.keys():
                break
            if self._clock() >= end:
                self.cut_short = True
                break
            self._level(end)
            if depth == 0 and not self.cut_short:
                self._unheld()
        self._nodes.clear()
        self._frontier.clear()
        return self.names

    def _level(self, end: float) -> None:
        below, self._frontier = self._frontier, []
        self._own |= {id(below), id(self._frontier)}
        wanted = {id(node) for node in below}
        holding = gc.get_referrers(*below)
        self._own.add(id(holding))
        for holder in holding:
            if self._clock() >= end:
                self.cut_short = True
                return
            if id(holder) in self._own or isinstance(holder, FrameType):
                continue
            children = [c for c in gc.get_referents(holder) if id(c) in wanted]
            self._own.add(id(children))
            self._meet(holder, children)

    def _meet(self, holder: Any, children: list[Any]) -> None:
        known = id(holder) in self._nodes
        self._down[id(holder)] += [id(child) for child in children]
        for child in children:
            named = self._roots.attribute(holder, child)
            if named is not None:
                self._resolve(child, named, "")
                return
        if not known and len(self._frontier) < WIDTH:
            self._nodes[id(holder)] = holder
            if not self._named(holder):
                self._frontier.append(holder)

    def _unheld(self) -> None:
        held = {below for children in self._down.values() for below in children}
        for target in self._targets - held:
            self.names.setdefault(target, NO_HOLDER)

    def _named(self, node: Any) -> bool:
        """Whether the node is a local variable; then what hangs below it is told."""
        named = self._roots.local(node)
        if named is not None:
            self._resolve(node, named, "")
        return named is not None

    def _resolve(self, node: Any, named: Named, path: str) -> None:
        """Name the targets below `node`, whose expression is the name and `path`."""
        waiting = deque([(node, path, "variable")])
        seen = set()
        while waiting:
            current, way, kind = waiting.popleft()
            if id(current) in seen:
                continue
            seen.add(id(current))
            if id(current) in self._targets:
                chain = f"{named.name}{way.removesuffix('[]')} {kind} in {named.place}"
                self.names.setdefault(id(current), chain)
            for below in self._down.get(id(current), ()):
                child = self._nodes.get(below)
                if child is not None:
                    further = way + step(current, child, way.endswith("."))
                    waiting.append((child, further, _kind(current, kind)))


def step(holder: Any, child: Any, attributes: bool = False) -> str:
    """How `holder` refers to `child`, as one would write it: `.cache`, `['x']`, `[]`.

    `attributes` says that `holder` is the `__dict__` of the object before; `.` that `child` is.
    """
    if isinstance(holder, list | tuple | set | frozenset | deque):
        return "[]"
    if isinstance(holder, Mapping):
        key = next((key for key, value in list(holder.items()) if value is child), None)
        return str(key) if attributes else f"[{key!r}]"[:60]
    if isinstance(holder, FunctionType):
        return ".<closure>"
    return "" if isinstance(holder, CellType) else _attribute(holder, child)


def _attribute(holder: Any, child: Any) -> str:
    if isinstance(holder, type):
        return "." if isinstance(child, dict) else ""
    found = getattr(holder, "__dict__", None)
    if found is None or found is child:
        return "." if found is child else ""
    return next((f".{name}" for name, value in list(found.items()) if value is child), "")


def _kind(holder: Any, otherwise: str) -> str:
    """The type of what holds the target in the end, by its name."""
    return otherwise if isinstance(holder, CellType) else type(holder).__name__
