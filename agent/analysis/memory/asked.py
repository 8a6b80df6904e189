"""What the caller knows beside the snapshots."""

from __future__ import annotations

import msgspec


class Holder(msgspec.Struct, frozen=True):
    """One line of a census: `kind` and `name` of what holds tensors (list `history`), and where.

    `bytes` and `count` are of the tensors held, `graph` whether they carry one.
    """

    name: str
    kind: str = ""
    file: str = ""
    line: int = 0
    count: int = 0
    bytes: int = 0
    graph: bool = False


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """Facts beside the snapshots; bytes, None or empty where nobody told.

    `every` steps lie between two snapshots; `capacity` and `free` are the device's; `used` by the
    process on the device and `host` by it on the host, one figure per snapshot.
    """

    every: int | None = None
    capacity: int | None = None
    free: int | None = None
    used: tuple[int, ...] = ()
    host: tuple[int, ...] = ()
    census: tuple[Holder, ...] = ()
