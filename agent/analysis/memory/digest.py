"""A snapshot boiled down: all that any report needs, thousands of times smaller than the file."""

from __future__ import annotations

import msgspec

from gpudiag.agent.analysis.memory.frames import Site
from gpudiag.agent.analysis.memory.pools import Pool

REFUSED = 2
"""Exit status of the child that reads a file which is no snapshot; its last line says why."""


class Live(msgspec.Struct, frozen=True, array_like=True):
    """Live memory of one call site and category: `bytes` of its blocks, `asked` of its requests.

    `asked` is rounded as the allocator rounds each; blocks may be larger than that.
    `site` indexes the digest's `sites`. `inferred`: the category follows from sizes alone.
    `born` counts its blocks per tenth of the recording, the first entry those older than it.
    """

    site: int
    category: str
    bytes: int
    asked: int
    count: int
    inferred: bool
    born: tuple[int, ...]


class Moment(msgspec.Struct, frozen=True, array_like=True):
    """A moment at the same phase of the step: `step` counts from the first, epoch µs or 0."""

    step: int
    time_us: int
    live: int
    reserved: int


class Series(msgspec.Struct, frozen=True, array_like=True):
    """A call site over the moments: live bytes and blocks.

    `bulk` are the largest number of its blocks freed between two moments and the sites that freed
    them, so that gc can be told from a list that is emptied.
    """

    site: int
    category: str
    bytes: tuple[int, ...]
    counts: tuple[int, ...]
    bulk: int = 0
    freed_at: tuple[int, ...] = ()


class Chart(msgspec.Struct, frozen=True):
    """Live bytes by category over the recording, at `times` (0-1 of it); stacked, as drawn."""

    times: tuple[float, ...] = ()
    values: dict[str, tuple[int, ...]] = {}


class Pin(msgspec.Struct, frozen=True):
    """A segment that few live blocks keep from being released; `by` are (site, bytes)."""

    address: int
    size: int
    free: int
    by: tuple[tuple[int, int], ...]


class Row(msgspec.Struct, frozen=True):
    """A segment as drawn: runs of (bytes, what), what a category, `free` or `pending`."""

    address: int
    size: int
    stream: int
    private: bool
    runs: tuple[tuple[int, str], ...]


class Oom(msgspec.Struct, frozen=True):
    """A failed allocation: rounded bytes asked for, bytes the device had left, and its place."""

    size: int
    device_free: int
    time_us: int
    site: int
    stream: int
    pool: tuple[int, int]
    step: int


class Alive(msgspec.Struct, frozen=True, array_like=True):
    """One live block: with `born_us` (0: older than the recording) its identity."""

    address: int
    size: int
    site: int
    born_us: int


class Device(msgspec.Struct, frozen=True, kw_only=True):
    """One device of one snapshot; bytes. `profiled`: torch.profiler made it, of CPU tensors too."""

    device: int
    sites: list[Site]
    reserved: int
    live: int
    pending: int
    requested: int
    framed: int
    pools: list[Pool]
    holds: list[Live]
    series: list[Series]
    moments: list[Moment]
    phase: str
    chart: Chart
    entries: int
    seconds: float
    peak: int
    at_peak: list[Live]
    sizes: dict[int, int]
    ooms: list[Oom]
    pins: list[Pin]
    rows: list[Row]
    blocks: list[Alive]
    largest_split: int
    expandable: bool


class Digest(msgspec.Struct, frozen=True, kw_only=True):
    """One file: its devices, and what was odd about it.

    `step` is the training step it was taken at, `time_us` its last moment; None where untold.
    """

    name: str
    step: int | None
    time_us: int | None
    notes: list[str]
    devices: list[Device]
