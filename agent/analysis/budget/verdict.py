"""Whether it fits, by how much, and the cheapest change that makes it fit."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from gpudiag.agent.analysis.budget.feasible import objection
from gpudiag.agent.analysis.budget.items import Item, NotKnown, items
from gpudiag.agent.analysis.budget.layout import Layout
from gpudiag.agent.analysis.budget.model import Shape
from gpudiag.probes.errors import UsageError

USABLE = 0.94
"""Of a GPU's memory: what the driver keeps and what the allocator cannot use of its segments."""


class Change(msgspec.Struct, frozen=True):
    """One change on top of those before it, and the bytes it leads to; `fits` as the verdict's."""

    words: str
    layout: Layout
    total: float
    fits: bool | None


class Verdict(msgspec.Struct, frozen=True):
    """The budget of one GPU in bytes. `fits` is None where an item cannot be told and the rest
    fits; `spare` is what is left, below 0 what lacks.
    """

    items: tuple[Item | NotKnown, ...]
    total: float
    usable: float
    fits: bool | None
    changes: tuple[Change, ...] = ()

    @property
    def spare(self) -> float:
        """Bytes left on the GPU."""
        return self.usable - self.total


def judge(shape: Shape, layout: Layout, memory: float) -> Verdict:
    """The verdict for GPUs of `memory` bytes; changes until it fits, where it does not.

    Raises `UsageError` of a layout that the model cannot be spread by.
    """
    if against := objection(shape, layout):
        raise UsageError(against)
    found, usable = items(shape, layout), memory * USABLE
    total, fits = _total(found), _fits(found, usable)
    changes = tuple(_changes(shape, layout, usable)) if fits is False else ()
    return Verdict(tuple(found), total, usable, fits, changes)


def _total(found: list[Item | NotKnown]) -> float:
    return sum(item.bytes for item in found if isinstance(item, Item))


def _fits(found: list[Item | NotKnown], usable: float) -> bool | None:
    if _total(found) > usable:
        return False
    return True if all(isinstance(item, Item) for item in found) else None


def _changes(shape: Shape, layout: Layout, usable: float) -> Iterator[Change]:
    """In the guides' order, each on top of those before that helped, until it fits."""
    steps = _SERVING if layout.serving else _TRAINING
    now = _total(items(shape, layout))
    for step in steps:
        while (changed := step(layout)) is not None:
            words, new = changed
            found = items(shape, new)
            total = _total(found)
            if total >= now or objection(shape, new):
                break
            layout, now = new, total
            yield Change(words, new, total, _fits(found, usable))
            if total <= usable:
                return
            if step in _ONCE:
                break


Step = Callable[[Layout], tuple[str, Layout] | None]


def _micro_batch(of: Layout) -> tuple[str, Layout] | None:
    if of.micro_batch < 2:
        return None
    half = of.micro_batch // 2
    words = f"micro-batch {of.micro_batch} -> {half}, with twice the accumulation"
    return words, msgspec.structs.replace(of, micro_batch=half)


def _sequence(of: Layout) -> tuple[str, Layout] | None:
    if of.sequence < 2048:
        return None
    words = f"sequence {of.sequence} -> {of.sequence // 2}"
    return words, msgspec.structs.replace(of, sequence=of.sequence // 2)


def _concurrency(of: Layout) -> tuple[str, Layout] | None:
    if of.concurrency < 2:
        return None
    words = f"requests at a time {of.concurrency} -> {of.concurrency // 2}"
    return words, msgspec.structs.replace(of, concurrency=of.concurrency // 2)


def _cache_precision(of: Layout) -> tuple[str, Layout] | None:
    if of.cache_precision == "fp8":
        return None
    return "KV cache in fp8", msgspec.structs.replace(of, cache_precision="fp8")


def _precision(of: Layout) -> tuple[str, Layout] | None:
    if of.precision == "fp32":
        return "bf16 in place of fp32", msgspec.structs.replace(of, precision="bf16")
    if of.serving and of.precision != "fp8":
        return "weights in fp8", msgspec.structs.replace(of, precision="fp8")
    return None


def _recompute(of: Layout) -> tuple[str, Layout] | None:
    if of.recompute == "none":
        return "selective recomputation", msgspec.structs.replace(of, recompute="selective")
    if of.recompute == "selective":
        return "full recomputation", msgspec.structs.replace(of, recompute="full")
    return None


def _zero(of: Layout) -> tuple[str, Layout] | None:
    if of.dp < 2 or of.zero >= 3:
        return None
    words = f"ZeRO stage {of.zero} -> {of.zero + 1}" + (" (FSDP)" if of.zero == 2 else "")
    return words, msgspec.structs.replace(of, zero=of.zero + 1)


def _tensor(of: Layout) -> tuple[str, Layout] | None:
    if of.tp >= 8:
        return None
    words = f"tensor parallelism {of.tp} -> {of.tp * 2}: {of.gpus * 2} GPUs"
    return words, msgspec.structs.replace(of, tp=of.tp * 2)


def _cards(of: Layout) -> tuple[str, Layout] | None:
    if of.gpus >= 16384:
        return None
    if of.zero and not of.serving:
        return f"{of.gpus * 2} GPUs (dp {of.dp * 2})", msgspec.structs.replace(of, dp=of.dp * 2)
    words = f"pipeline {of.pp} -> {of.pp * 2}: {of.gpus * 2} GPUs"
    return words, msgspec.structs.replace(of, pp=of.pp * 2)


_TRAINING: tuple[Step, ...] = (
    *(_micro_batch, _sequence, _precision, _recompute, _zero, _tensor, _cards),
)
_SERVING: tuple[Step, ...] = (_concurrency, _cache_precision, _precision, _tensor, _cards)

_ONCE = (_sequence,)
"""Half as long is another training run already; a quarter is none that anybody asked for."""
