"""Which documented cause lets memory grow, as far as samples tell, and why not the others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gpudiag.agent.rules._growth import Growth, growth
from gpudiag.agent.rules._memory import (
    ALLOCATED,
    BLOCKS,
    DAY,
    OUTSIDE,
    PINNED,
    RAW,
    RESERVED,
    RETRIES,
    SITE,
    SPLIT,
    USED,
    Collected,
    Memory,
    collected,
    growing_pids,
    share_in_phases,
    swings,
)
from gpudiag.agent.rules.contract import UNDETERMINED, Evidence, Rival
from gpudiag.agent.window import Window

RETAINED = "tensors-retained-across-steps"
LOGGED = "log-or-cache-buffers"
LOADING = "data-loading-leak"
TEMPORARY = "temporaries-not-freed-after-step"
FRAGMENTS = "fragmentation-growth"
COMM = "comm-buffers-not-reclaimed"
CACHING = "caching-growth"

SIDE_PHASES = ("eval", "valid", "log", "metric", "sample")
# Where what is allocated rises with what is reserved, tensors take it and not the cache.
FOLLOWS = 0.3
# Of the growth of reserved memory, what must lie split and idle to blame fragmentation.
SPLIT_SHARE = 0.5
IN_PHASE = 0.75
FREED_BY_GC = 0.25
# Memory that only gc gives back falls with gc and with nothing else, each time again.
ONLY_BY_GC = 0.8


@dataclass(frozen=True, slots=True)
class Why:
    """The cause of growth of one part of memory, `metric`; `corroborated` by more than a trend."""

    cause: str
    confidence: float
    metric: str
    grown: Growth
    why: str
    evidence: tuple[Evidence, ...] = ()
    rivals: tuple[Rival, ...] = ()
    missing: tuple[str, ...] = ()
    corroborated: bool = False


def of_process(window: Window, memory: Memory) -> Why | None:
    """The cause for a process that torch tells of; None where nothing grows."""
    grows = memory.grows
    if grows:
        faster = OUTSIDE in grows and grows[OUTSIDE].rate > memory.rate(ALLOCATED)
        first = (OUTSIDE, ALLOCATED) if faster else (ALLOCATED, OUTSIDE)
        for metric in (*first, RESERVED, PINNED, USED):
            said = _JUDGES[metric](window, memory, grows[metric]) if metric in grows else None
            if said:
                return said
    return _by_gc_only(window, memory)


def _allocated(window: Window, memory: Memory, grown: Growth) -> Why:
    calm = (Rival(CACHING, "what is allocated grows, not only the cache"),)
    site = _largest_site(window, memory)
    phase = share_in_phases(window, memory.labels, SIDE_PHASES)
    if phase >= IN_PHASE or any(word in site.lower() for word in SIDE_PHASES):
        why = f"{phase:.0%} of it happens in a side phase" if phase else f"it comes from {site}"
        facts = _site_facts(window, memory)
        return Why(LOGGED, 0.85, ALLOCATED, grown, why, facts, calm, corroborated=True)
    gc = collected(window, memory.labels)
    if gc.rose and gc.freed >= FREED_BY_GC * gc.rose:
        rivals = (Rival(RETAINED, "gc frees a good part of it"), *calm)
        why = f"gc frees {gc.freed / gc.rose:.0%} of it: reference cycles hold what steps made"
        return Why(TEMPORARY, 0.75, ALLOCATED, grown, why, (), rivals, corroborated=True)
    if site or _of_every_age(window, memory):
        why = f"it comes from {site}" if site else "live blocks of every age become more"
        facts = _site_facts(window, memory)
        return Why(RETAINED, 0.85, ALLOCATED, grown, why, facts, calm, corroborated=True)
    if gc.runs >= 2:
        rivals = (Rival(TEMPORARY, f"gc ran {gc.runs} times and did not free it"), *calm)
        return Why(RETAINED, 0.7, ALLOCATED, grown, "gc does not free it", (), rivals)
    return _open(grown)


def _open(grown: Growth) -> Why:
    """Retained or not yet freed: before the first gc the two look alike."""
    return Why(
        UNDETERMINED,
        0.6,
        ALLOCATED,
        grown,
        "torch counts it as allocated",
        rivals=(
            Rival(RETAINED, "likely; nothing seen yet tells it from cycles that gc would free"),
            Rival(TEMPORARY, "possible until a gc has run and freed nothing"),
            Rival(LOGGED, "possible: no phases were told of that the growth could follow"),
        ),
        missing=(
            "a gc.collect(): whether memory falls tells retained from not yet freed",
            "two snapshots or a census of live tensors: they name the call site and the holder",
        ),
    )


def _by_gc_only(window: Window, memory: Memory) -> Why | None:
    """A floor that climbs between runs of gc and falls with nothing else."""
    if not swings(window, memory.labels):
        return None
    gc = collected(window, memory.labels)
    if gc.freed_in < 2 or gc.freed < ONLY_BY_GC * gc.fell or gc.freed_in < ONLY_BY_GC * gc.runs:
        return None
    grown = Growth(gc.rose / gc.seconds, gc.freed / gc.freed_in, gc.seconds, gc.since, gc.level)
    why = f"it falls with gc alone, {gc.freed_in} times so far: reference cycles hold it"
    rivals = (Rival(RETAINED, "gc frees it"),)
    return Why(TEMPORARY, 0.75, ALLOCATED, grown, why, _gc_facts(gc), rivals, corroborated=True)


def _reserved(window: Window, memory: Memory, grown: Growth) -> Why:
    if memory.moved(ALLOCATED, grown.since) >= FOLLOWS * grown.grown:
        return _allocated(window, memory, grown)
    if ALLOCATED not in memory.seen:
        return Why(
            UNDETERMINED,
            0.5,
            RESERVED,
            grown,
            "torch reserves it",
            rivals=tuple(Rival(c, "possible") for c in (CACHING, FRAGMENTS, RETAINED)),
            missing=("gpudiag_torch_allocated_bytes: whether tensors or only the cache grow",),
        )
    retries = sum(p.value for p in window.increase(RETRIES, RAW, **memory.labels))
    split = next((growth(s) for s in window.minutes(SPLIT, DAY, "min", **memory.labels)), None)
    held = Rival(RETAINED, "what is allocated is flat")
    facts = (Evidence(RETRIES, retries, expected="0 in 2 h", labels=memory.labels),)
    if retries > 0:
        why = "what is allocated is flat, and the allocator had to empty its cache and try again"
        rivals = (held, Rival(CACHING, "allocations had to be tried again"))
        return Why(FRAGMENTS, 0.85, RESERVED, grown, why, facts, rivals, corroborated=True)
    if split and split.rate >= SPLIT_SHARE * grown.rate:
        why = "what is allocated is flat, and the growth lies idle in split blocks"
        rivals = (held, Rival(CACHING, "whole free segments would not count as split"))
        return Why(FRAGMENTS, 0.7, RESERVED, grown, why, facts, rivals, corroborated=True)
    why = "what is allocated is flat and no allocation had to be tried again: a growing cache"
    rivals = (held, Rival(FRAGMENTS, "no allocation had to be tried again"))
    return Why(CACHING, 0.75, RESERVED, grown, why, facts, rivals)


def _used(window: Window, memory: Memory, grown: Growth) -> Why | None:
    """The driver's figure, where what torch has allocated moves along with it."""
    follows = memory.moved(ALLOCATED, grown.since) >= FOLLOWS * grown.grown
    return _allocated(window, memory, grown) if follows else None


def _pinned(_: Window, __: Memory, grown: Growth) -> Why:
    return Why(LOADING, 0.6, PINNED, grown, "pinned host memory grows, the device's does not")


def _outside(_: Window, memory: Memory, grown: Growth) -> Why:
    inside = [m for m in (ALLOCATED, RESERVED) if m in memory.seen and m not in memory.grows]
    rivals = (Rival(RETAINED, "what torch holds is flat"),) if inside else ()
    return Why(
        COMM,
        0.75 if inside else 0.6,
        OUTSIDE,
        grown,
        "it lies outside torch's allocator, as communication buffers do",
        rivals=rivals,
        missing=("when process groups are made: growth by steps at those moments settles it",),
    )


_JUDGES: dict[str, Callable[[Window, Memory, Growth], Why | None]] = {
    ALLOCATED: _allocated,
    OUTSIDE: _outside,
    RESERVED: _reserved,
    PINNED: _pinned,
    USED: _used,
}


def of_gpu(window: Window, uuid: str, grown: Growth) -> Why:
    """The verdict where only the driver tells: who grows, if even that, and not why."""
    pids = growing_pids(window, uuid)
    who = max(pids, key=lambda name: pids[name].rate) if pids else ""
    return Why(
        UNDETERMINED,
        0.5,
        USED,
        grown,
        f"process {who} takes it" if who else "the driver does not say which process takes it",
        rivals=tuple(
            Rival(cause, "possible: the driver's figure is one sum of all of them")
            for cause in (RETAINED, LOGGED, TEMPORARY, FRAGMENTS, COMM, CACHING)
        ),
        missing=(
            "gpudiag_torch_allocated_bytes and gpudiag_torch_reserved_bytes of the process: "
            "start it with `gpudiag run -- CMD` or attach the hooks",
        ),
    )


def _largest_site(window: Window, memory: Memory) -> str:
    sites = window.latest(SITE, **memory.labels)
    return max(sites, key=lambda p: p.value).labels.get("site", "") if sites else ""


def _site_facts(window: Window, memory: Memory) -> tuple[Evidence, ...]:
    sites = sorted(window.latest(SITE, **memory.labels), key=lambda p: -p.value)[:3]
    return tuple(Evidence(SITE, p.value, "bytes", labels=p.labels) for p in sites)


def _gc_facts(gc: Collected) -> tuple[Evidence, ...]:
    return (
        Evidence("freed by gc", gc.freed, "bytes", f"of {gc.fell:.0f} that were freed"),
        Evidence("runs of gc", float(gc.runs)),
    )


def _of_every_age(window: Window, memory: Memory) -> bool:
    """Whether old live blocks become more as well: one cohort a step, none of which ever ends."""
    ages = {
        s.labels.get("age"): s.values for s in window.minutes(BLOCKS, DAY, "min", **memory.labels)
    }
    return any(len(n) > 1 and n[-1] > n[0] for age, n in ages.items() if age == "old")
