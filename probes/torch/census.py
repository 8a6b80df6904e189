"""Which tensors are alive, grouped, and who holds the largest groups."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from gpudiag.probes.torch.holders import Holders

BUDGET = 0.2
LARGEST = 12
LOOKED_AT = 2
UNSEEN = (
    "tensors saved for backward and buffers held in C++ have no Python object and are not seen; "
    "a group with a grad_fn may hold a whole graph of them"
)


@dataclass(slots=True)
class Group:
    """Live tensors alike in shape, dtype, device and grad_fn. Bytes count a storage once."""

    shape: tuple[int, ...]
    dtype: str
    device: str
    grad_fn: str
    count: int = 0
    bytes: int = 0
    grown: int | None = None
    holders: list[str] = field(default_factory=list)
    some: list[Any] = field(default_factory=list)

    def told(self) -> dict[str, Any]:
        """As it goes into the event; `grown` is the change of count since the last census."""
        return {
            "shape": list(self.shape), "dtype": self.dtype, "device": self.device,
            "grad_fn": self.grad_fn, "count": self.count, "bytes": self.bytes,
            "grown": self.grown, "holders": self.holders,
        }  # fmt: skip


Key = tuple[tuple[int, ...], str, str, str]


class Census:
    """Takes a census in the calling thread, within `budget` seconds or marked as cut short."""

    def __init__(self, torch: Any, clock: Callable[[], float] = time.monotonic) -> None:
        self._torch = torch
        self._clock = clock
        self._before: dict[Key, int] = {}

    def take(self, known: dict[int, str], budget: float = BUDGET) -> dict[str, Any]:
        """The largest and the fastest growing groups, with their chains of holders.

        `known` says by `id` what needs no search: parameters, their gradients, optimizer state.
        """
        start = self._clock()
        end = start + budget
        groups, cut = self._groups(end - budget / 2)
        told = self._worst(groups)
        cut |= self._hold(told, known, end)
        self._before = {key: group.count for key, group in groups.items()}
        return {
            "groups": [group.told() for group in told],
            "tensors": sum(group.count for group in groups.values()),
            "bytes": sum(group.bytes for group in groups.values()),
            "cut_short": cut,
            "seconds": round(self._clock() - start, 4),
            "unseen": UNSEEN,
        }

    def _groups(self, end: float) -> tuple[dict[Key, Group], bool]:
        groups: dict[Key, Group] = {}
        storages: set[int] = set()
        kinds = set(_kinds(self._torch.Tensor))
        tensors = [found for found in gc.get_objects() if type(found) in kinds]
        for number, tensor in enumerate(tensors):
            if number % 256 == 0 and self._clock() > end:
                return groups, True
            _count(groups, storages, tensor)
        return groups, False

    def _worst(self, groups: dict[Key, Group]) -> list[Group]:
        for key, group in groups.items():
            if self._before:
                group.grown = group.count - self._before.get(key, 0)
        by_growth = sorted(groups.values(), key=lambda g: -(g.grown or 0) * g.bytes / g.count)
        by_bytes = sorted(groups.values(), key=lambda g: -g.bytes)
        chosen = {id(group): group for group in [*by_growth[: LARGEST // 2], *by_bytes]}
        return list(chosen.values())[:LARGEST]

    def _hold(self, groups: list[Group], known: dict[int, str], end: float) -> bool:
        """Fill in who holds each group; True where time ran out before all were found."""
        samples = [group.some for group in groups]
        targets = [t for some in samples for t in some if id(t) not in known]
        holders = Holders(targets, samples, self._clock)
        names = known | holders.search(end)
        for group in groups:
            said = [names.get(id(tensor)) for tensor in group.some]
            group.holders = list(dict.fromkeys(name for name in said if name))
            group.some.clear()
        return holders.cut_short


def headline(found: dict[str, Any]) -> str:
    """The census in one line: what grew most, else what is largest, and who holds it."""
    if not found["groups"]:
        return "no tensors alive"
    first = found["groups"][0]
    grown = "" if first["grown"] is None else f" ({first['grown']:+d})"
    shape = "x".join(map(str, first["shape"])) or "scalar"
    held = "; ".join(first["holders"]) or "nobody that could be found"
    return f"{first['count']}{grown} {first['dtype']} {shape} on {first['device']}: held by {held}"


def _kinds(kind: type) -> Iterator[type]:
    """The class and all below it; by class, since a lazy proxy may do anything when it is asked."""
    yield kind
    below: type
    for below in type.__subclasses__(kind):
        yield from _kinds(below)


def _count(groups: dict[Key, Group], storages: set[int], tensor: Any) -> None:
    try:
        key = _key(tensor)
        storage = tensor.untyped_storage()
        address, size = storage.data_ptr(), storage.nbytes()
    except Exception:
        # Fake, functional and sparse tensors have no storage to count.
        return
    group = groups.get(key)
    if group is None:
        group = groups[key] = Group(*key)
    group.count += 1
    if address not in storages:
        storages.add(address)
        group.bytes += size
    # The collector's lists begin with the youngest; what leaks is among the older ones.
    if group.count & (group.count - 1) == 0:
        group.some.append(tensor)
        del group.some[:-LOOKED_AT]


def _key(tensor: Any) -> Key:
    grad_fn = tensor.grad_fn
    return (
        tuple(tensor.shape),
        str(tensor.dtype).removeprefix("torch."),
        str(tensor.device),
        "" if grad_fn is None else type(grad_fn).__name__,
    )
