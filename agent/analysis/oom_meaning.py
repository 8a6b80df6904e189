"""What an out-of-memory message implies: the documented cause, how sure, and why not the others."""

from __future__ import annotations

from collections.abc import Iterator

from gpudiag.agent.analysis.oom_elsewhere import elsewhere
from gpudiag.agent.analysis.oom_fields import Figures
from gpudiag.agent.analysis.oom_text import OomText
from gpudiag.agent.analysis.oom_words import (
    DRIVER_LIMIT,
    GIB,
    LIMIT,
    MIB,
    OTHERS,
    OUTSIDE,
    STARTUP,
    UNDETERMINED,
    Meaning,
    size,
)

FRAGMENTATION = "fragmentation"
STRANDED = "private-pools-stranded"

# Free memory inside the cache is normal below a tenth of what is reserved and a gibibyte.
_NOTABLE_SHARE = 0.1
# CUDA's context and modules take 0.5-2 GiB of every process; NCCL's first group 1.5 GiB more.
_CONTEXT = 4 * GIB
# The allocator asks the driver for 20 MiB at a time: less free than a few of these is none.
_SEGMENTS = 64 * MIB
_FULL = 0.9


def meanings(message: OomText) -> list[Meaning]:
    """What the message may mean, the most likely first; never empty."""
    found = sorted(_possible(message), key=lambda one: -one.confidence)
    return found or [_open(message)]


def _possible(message: OomText) -> Iterator[Meaning]:
    said = elsewhere(message)
    if said:
        yield said
    else:
        yield from _of_torch(message.figures)


def _of_torch(seen: Figures) -> Iterator[Meaning]:
    for judge in (_limit, _others, _fragmented, _stranded, _outside, _refused_by_driver, _full):
        said = judge(seen)
        if said:
            yield said


def _limit(seen: Figures) -> Meaning | None:
    """The process's own fraction, while the device has room."""
    if not (seen.allowed and seen.requested):
        return None
    held = seen.reserved or seen.allocated or seen.own
    over = held is not None and held + seen.requested > seen.allowed
    room = seen.free is not None and seen.free >= seen.requested
    if not (over and room):
        return None
    why = (
        f"the device has {size(seen.free)} free for the {size(seen.requested)} asked for, but this"
        f" process may take {size(seen.allowed)} only and holds {size(held)}"
    )
    todo = "Raise torch.cuda.set_per_process_memory_fraction, or make the job smaller."
    return Meaning(STARTUP, LIMIT, 0.9, why, todo)


def _others(seen: Figures) -> Meaning | None:
    """Other processes, by name or as what is taken and not ours."""
    missing = _missing(seen)
    named = [(pid, held) for pid, held in _strangers(seen) if held]
    held = sum(held for _, held in named)
    if held and missing is not None and held >= max(missing, 100 * MIB):
        who = ", ".join(f"{pid} ({size(each)})" for pid, each in named[:3])
        more = f" and {len(named) - 3} more" if len(named) > 3 else ""
        why = f"other processes hold {size(held)}: {who}{more}; {size(missing)} were missing"
        sure = 0.85 if held >= _NOTABLE_SHARE * (seen.total or held) else 0.6
        return Meaning(STARTUP, OTHERS, sure, why, f"Look who that is: `ps -fp {named[0][0]}`.")
    unnamed = _unnamed(seen)
    if missing is not None and unnamed is not None and unnamed >= max(missing, GIB):
        why = (
            f"{size(unnamed)} of the device are taken by nobody whom this process can see"
            " (another container, or the driver)"
        )
        return Meaning(STARTUP, OTHERS, 0.65, why, "Run `nvidia-smi` on the host, not in here.")
    return None


def _fragmented(seen: Figures) -> Meaning | None:
    idle, asked = seen.unallocated, seen.requested
    if idle is None or not asked or idle < asked:
        return None
    sure = 0.8 if idle >= _NOTABLE_SHARE * (seen.reserved or 0) or idle >= GIB else 0.65
    # With room on the device, or with sums beyond it, the idle memory does not explain the error.
    if (seen.free or 0) >= asked or (seen.total and (seen.reserved or 0) > seen.total):
        sure = 0.5
    why = (
        f"{size(idle)} lie reserved and idle in torch's cache, more than the {size(asked)} asked"
        " for: no free block in it is that large"
    )
    todo = "Set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True before the first allocation."
    wanted = ("a snapshot: which blocks pin the segments, and for which sizes",)
    return Meaning(STARTUP, FRAGMENTATION, sure, why, todo, wanted)


def _stranded(seen: Figures) -> Meaning | None:
    if not (seen.private and seen.requested) or seen.private < seen.requested:
        return None
    why = (
        f"{size(seen.private)} lie free in private pools (CUDA graphs, MemPool), where only their"
        f" owners may use them; {size(seen.requested)} were asked for"
    )
    todo = "Capture fewer shapes, share one pool between graphs, or drop graphs not in use."
    return Meaning(FRAGMENTATION, STRANDED, 0.75, why, todo)


def _outside(seen: Figures) -> Meaning | None:
    """Much of the process's own memory that torch did not allocate."""
    if seen.own is None or seen.reserved is None:
        return None
    outside = seen.own - seen.reserved
    if outside < _CONTEXT or outside < _NOTABLE_SHARE * (seen.total or 0):
        return None
    why = (
        f"{size(outside)} of this process lie outside torch's allocator: communication buffers,"
        " other libraries, or memory of pools that torch does not count"
    )
    wanted = ("gpudiag_torch_non_torch_bytes over time: whether it grows, and when",)
    return Meaning("", OUTSIDE, 0.55, why, "Count process groups and CUDA libraries.", wanted)


def _refused_by_driver(seen: Figures) -> Meaning | None:
    if seen.free is None or not seen.requested or seen.allowed:
        return None
    if seen.free < max(2 * seen.requested, _SEGMENTS):
        return None
    why = (
        f"the device has {size(seen.free)} free and still refused {size(seen.requested)}: another"
        " request took it at the same time, or the driver has a limit of its own (WSL, WDDM, MIG)"
    )
    wanted = ("the driver's own figure when it happens again: `nvidia-smi`",)
    return Meaning("", DRIVER_LIMIT, 0.7, why, "Look at the host's limits.", wanted)


def _full(seen: Figures) -> Meaning | None:
    """Live tensors fill what the process may have."""
    most = seen.allowed or seen.total
    live = (seen.allocated or 0) - (seen.private or 0)
    if not most or live + min(_CONTEXT, _NOTABLE_SHARE * most) < _FULL * most:
        return None
    why = f"live tensors take {size(live)} of {size(most)}: it is full, not fragmented"
    if live > most:
        why = (
            f"torch counts {size(live)} of live tensors, more than the {size(most)} there are:"
            " some of it sleeps on the host or is managed memory"
        )
    todo = "Halve the micro-batch or the sequence and look which of the two it follows."
    wanted = (
        "when it came: at the first optimizer step it is the optimizer's state, in forward the"
        " activations, after many steps a leak",
        "two snapshots: `gpudiag leak-report` names the lines",
    )
    return Meaning(STARTUP, UNDETERMINED, 0.7, why, todo, wanted)


def _open(message: OomText) -> Meaning:
    """Something is missing in the text, or nothing in it stands out."""
    seen = message.figures
    why = "the message does not say who holds the memory"
    if seen.requested is None:
        why = "the message is cut short: it does not say how much was asked for"
    elif seen.unallocated is not None and seen.unallocated < seen.requested:
        why = "the cache has no room for it, and nothing else in the message stands out"
    wanted = ("the whole message, or a snapshot at the time of the error",)
    return Meaning(STARTUP, UNDETERMINED, 0.4, why, "", wanted)


def _strangers(seen: Figures) -> list[tuple[int, int | None]]:
    """The processes listed, without this one, which a PID namespace makes look like another."""
    others = list(seen.others)
    if seen.own is not None or seen.reserved is None:
        return others
    mine = [one for one in others if one[1] and seen.reserved <= one[1] < seen.reserved + _CONTEXT]
    if mine:
        others.remove(mine[0])
    return others


def _missing(seen: Figures) -> int | None:
    if seen.requested is None or seen.free is None:
        return None
    return max(seen.requested - seen.free, 0) or None


def _unnamed(seen: Figures) -> int | None:
    """Bytes of the device that neither are free nor belong to a process in the message."""
    if seen.total is None or seen.free is None or seen.own is None:
        return None
    named = sum(held or 0 for _, held in seen.others)
    return seen.total - seen.free - seen.own - named
