"""A census of live tensors as the hooks tell it, read as who holds what."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from gpudiag.agent.analysis.memory.asked import Holder

_CHAIN = re.compile(r"(?P<name>.+) (?P<kind>\S+) in (?P<file>.+?)(?::(?P<line>\d+))?")
"""`history list in train.py:57`, as the hooks name the end of a chain of holders."""

_VARIABLE = "variable"


class Group(msgspec.Struct, frozen=True):
    """Live tensors alike in shape, dtype, device and grad_fn; bytes count a storage once."""

    count: int
    bytes: int
    grad_fn: str = ""
    holders: tuple[str, ...] = ()
    shape: tuple[int, ...] = ()
    dtype: str = ""
    device: str = ""

    @property
    def kind(self) -> tuple[tuple[int, ...], str, str, str]:
        """What its tensors have in common."""
        return self.shape, self.dtype, self.device, self.grad_fn


class Census(msgspec.Struct, frozen=True):
    """What the hooks tell of all groups, the fastest growing first."""

    groups: tuple[Group, ...]


def holders(plain: Any) -> tuple[Holder, ...]:
    """From the JSON of a census, of the event that brought it, or of a list of `Holder`.

    Raises `msgspec.ValidationError` for anything else.
    """
    if isinstance(plain, dict):
        plain = plain.get("fields", plain)
        if "groups" in plain:
            census = msgspec.convert(plain, Census, strict=False)
            return tuple(found for group in census.groups for found in _of(group))
        plain = plain.get("holders", plain)
    return msgspec.convert(plain, tuple[Holder, ...], strict=False)


def _of(group: Group) -> list[Holder]:
    ends = [found for chain in group.holders if (found := _CHAIN.fullmatch(chain))]
    return [
        Holder(
            name=end["name"],
            kind=end["kind"],
            file=end["file"],
            line=int(end["line"] or 0),
            count=share[0],
            bytes=share[1],
            graph=bool(group.grad_fn),
        )
        for end, share in zip(ends, _shares(group, [end["kind"] for end in ends]), strict=True)
    ]


def _shares(group: Group, kinds: list[str]) -> list[tuple[int, int]]:
    """Count and bytes of each holder: a variable holds one, the only container all of them.

    The hooks look at a few tensors of a group: what each of several containers has is not told.
    """
    one = 1, group.bytes // max(1, group.count)
    alone = sum(kind != _VARIABLE for kind in kinds) == 1
    every = (group.count, group.bytes) if alone else (0, 0)
    return [one if kind == _VARIABLE else every for kind in kinds]
