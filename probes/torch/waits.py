"""Time spent in Python waiting for collectives, by process group: FSDP, and any loop's own."""

from __future__ import annotations

import functools
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any

from gpudiag.probes.torch.cuda_times import CudaTimes
from gpudiag.probes.torch.features import COLLECTIVES, Features
from gpudiag.probes.torch.groups import group_name, scope
from gpudiag.probes.torch.guard import guarded

# Work that nobody waits for stays noted until then.
MOST = 4096

Spent = dict[str, float]
"""Seconds a step by group; "" for what has no group."""


class Waits:
    """Times `Work.wait` and the wait of functional collectives.

    On the CPU that is the wait itself, counted in the thread that trains. On a GPU it only puts
    the wait into a stream, where `cuda` times it. `seen` counts the collectives waited for, in
    any thread, which tells how much of the waiting goes by here.
    """

    def __init__(
        self,
        torch: Any,
        features: Features,
        cuda: CudaTimes,
        clock: Callable[[], int] = time.perf_counter_ns,
    ) -> None:
        self.seen = 0
        self.thread = 0
        self.scopes: dict[str, str | None] = {}
        self._compiling = torch.compiler.is_compiling
        self._features = features
        self._before, self._after = guarded(cuda.before), guarded(cuda.after)
        self._clock = clock
        self._works: dict[int, tuple[str, bool]] = {}
        self._names: dict[str, str] = {}
        self._spent: defaultdict[str, int] = defaultdict(int)

    def issuing(self, name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Wraps the method `name` of a process group, so that its work is known by group."""
        noted, counts = guarded(self._noted), name in COLLECTIVES

        def wrapped(original: Callable[..., Any]) -> Callable[..., Any]:
            @functools.wraps(original)
            def issue(group: Any, *args: Any, **kwargs: Any) -> Any:
                work = original(group, *args, **kwargs)
                noted(group, work, counts)
                return work

            return issue

        return wrapped

    def waiting(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """`Work.wait`, timed."""

        @functools.wraps(original)
        def wait(work: Any, *args: Any, **kwargs: Any) -> Any:
            group, counts = self._works.pop(id(work), ("", False))
            self.seen += counts
            return self._timed(group, original, work, *args, **kwargs)

        return wait

    def functional(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """`wait_tensor` of functional collectives, timed; compilers see through to the original."""

        @functools.wraps(original)
        def wait_tensor(tensor: Any) -> Any:
            if self._compiling():
                return original(tensor)
            self.seen += 1
            return self._timed("", original, tensor)

        return wait_tensor

    def take(self, steps: int) -> Spent:
        """What was waited on the CPU since the last call, seconds a step."""
        spent, self._spent = self._spent, defaultdict(int)
        return {group: waited / max(steps, 1) / 1e9 for group, waited in spent.items()}

    def label(self, group: Any) -> str:
        """The name of a process group in series, its scope noted; "" where torch does not tell."""
        told = self._features.group_label(group)
        if told is None:
            return ""
        number, description, ranks = told
        name = group_name(number, description)
        self.scopes.setdefault(name, scope(ranks))
        return name

    def _noted(self, group: Any, work: Any, counts: bool) -> None:
        if work is None:
            return
        if len(self._works) >= MOST:
            self._works.clear()
        key = str(group.group_name)
        name = self._names.get(key)
        if name is None:
            name = self._names[key] = self.label(group)
        self._works[id(work)] = name, counts

    def _timed(self, group: str, wait: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        before, start = self._before(), self._clock()
        answer = wait(*args, **kwargs)
        if threading.get_ident() == self.thread:
            self._spent[group] += self._clock() - start
        self._after(before, "comm", group)
        return answer
