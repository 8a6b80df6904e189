"""Which documented cause a leak has, and why not its rivals."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from gpudiag.agent.analysis.memory import categories
from gpudiag.agent.analysis.memory.asked import Holder
from gpudiag.agent.analysis.memory.frames import Hint, short
from gpudiag.agent.analysis.memory.growth import Growth

SYMPTOM = "memory-slow-growth"
RETAINED = "tensors-retained-across-steps"
LOGGED = "log-or-cache-buffers"
LOADING = "data-loading-leak"
TEMPORARY = "temporaries-not-freed-after-step"
FRAGMENTS = "fragmentation-growth"
COMM = "comm-buffers-not-reclaimed"
CACHING = "caching-growth"


class Rival(msgspec.Struct, frozen=True):
    """A cause that was weighed and lost."""

    cause: str
    why_not: str


class Cause(msgspec.Struct, frozen=True):
    """The cause of growth, `why` in words, its rivals and what would settle what is open."""

    cause: str
    why: str
    rivals: tuple[Rival, ...]
    missing: tuple[str, ...] = ()


_GRAPH = 3
_OPEN = Rival(TEMPORARY, "before gc has run the two look alike; nothing here falls yet")
_SETTLES = "one `gc.collect()` and a snapshot after it: what falls was held by reference cycles"
_NO_CACHE = Rival(CACHING, "live blocks grow, not the allocator's cache")


def of_leak(leaks: Sequence[Growth], held_by: Holder | None) -> Cause:
    """The cause of the largest leak; `held_by` is who holds its tensors, from a census."""
    return next(found for judge in _JUDGES if (found := judge(leaks, held_by)))


def _communication(leaks: Sequence[Growth], _: Holder | None) -> Cause | None:
    if leaks[0].category != categories.COMM:
        return None
    return Cause(COMM, "it is asked for by communication code", (_NO_CACHE,))


def _graph(leaks: Sequence[Growth], held_by: Holder | None) -> Cause | None:
    if held_by and held_by.graph:
        return Cause(RETAINED, "the census finds tensors with a graph", (_NO_CACHE,))
    forward = [leak for leak in leaks if leak.category == categories.ACTIVATIONS]
    if held_by or len(forward) < _GRAPH:
        return None
    caller = shared_caller(forward)
    under = f" under {caller}" if caller else ""
    why = f"{len(forward)} call sites of the forward pass{under} grow together: whole graphs stay"
    return Cause(RETAINED, why, (_NO_CACHE, _OPEN), (_SETTLES,))


def shared_caller(leaks: Sequence[Growth]) -> str:
    """The innermost call that all these sites were made under: `llm/train.py:88 train_step`."""
    chains = [set(leak.site.chain) for leak in leaks]
    common = set.intersection(*chains)
    inner = next((call for call in leaks[0].site.chain if call in common), "")
    path, _, name = inner.rpartition(" ")
    return f"{short(path)} {name}".strip()


def _phase(leaks: Sequence[Growth], _: Holder | None) -> Cause | None:
    worst = leaks[0]
    if worst.by == "size" and worst.count_last <= worst.count_first + 1:
        why = "one block that is made anew and larger each time, as by torch.cat"
        return Cause(LOGGED, why, (Rival(RETAINED, "the number of blocks stays"), _NO_CACHE))
    if worst.site.hints & Hint.SIDE or worst.category == categories.CACHE:
        why = "its line is evaluation or a cache by name"
        return Cause(LOGGED, why, (Rival(RETAINED, "possible, with the same cure"), _NO_CACHE))
    return None


def _retained(leaks: Sequence[Growth], held_by: Holder | None) -> Cause:
    if held_by:
        why = "the census finds tensors without a graph: a log or metric buffer"
        return Cause(RETAINED, why, (_NO_CACHE, Rival(TEMPORARY, "the census names a holder")))
    hook = leaks[0].site.hints & Hint.HOOK
    return Cause(
        RETAINED,
        "hook code keeps it" if hook else "blocks of every age are alive",
        (_NO_CACHE, _OPEN),
        (_SETTLES, "a census of live tensors (--census): it names who holds them"),
    )


_JUDGES = (_communication, _graph, _phase, _retained)


def holder(leak: Growth, census: Sequence[Holder]) -> Holder | None:
    """Who of the census holds a leak's tensors: by line, else by number within a fifth."""
    for one in census:
        name = one.file.rsplit("/", 1)[-1]
        if name and leak.site.file.endswith(name) and abs(one.line - leak.site.line) <= 3:
            return one
    near = [h for h in census if abs(h.count - leak.count_last) <= 0.2 * leak.count_last]
    return max(near, key=lambda h: h.count, default=None) if leak.count_last >= 8 else None
