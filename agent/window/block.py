"""A piece of history that travels between memory and the archive, and its packed form."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
import numpy as np

from gpudiag.agent.window.grid import Floats, Grid
from gpudiag.probes import Labels


@dataclass(frozen=True, slots=True)
class Block:
    """Rows of a grid: times (n,), label sets, values (n, keys) with NaN where there is none."""

    keys: list[Labels]
    times: Floats
    values: Floats

    def pick(self, keys: Sequence[Labels], since: float, until: float) -> tuple[Floats, Floats]:
        """Times and values of `since` <= time < `until`, columns in the order of `keys`."""
        first, last = np.searchsorted(self.times, (since, until))
        index = {key: column for column, key in enumerate(self.keys)}
        return self.times[first:last], columns(
            self.values[first:last], [index.get(key, -1) for key in keys]
        )


class _Packed(msgspec.Struct, array_like=True):
    keys: list[Labels]
    times: bytes
    values: bytes


def columns(values: Floats, wanted: list[int]) -> Floats:
    """A copy of the wanted columns; all NaN for -1."""
    picked: Floats = values[:, wanted] if values.shape[1] else np.empty((len(values), len(wanted)))
    absent = [at for at, column in enumerate(wanted) if column < 0]
    if absent:
        picked[:, absent] = np.nan
    return picked


def cut(grid: Grid, since: float, until: float) -> Block:
    """What a grid holds of `since` <= time < `until`, without its empty columns."""
    first, last = np.searchsorted(grid.times, (since, until))
    values = grid.values[first:last]
    some = np.flatnonzero((values == values).any(axis=0))
    return Block([grid.keys[c] for c in some], grid.times[first:last], values[:, some])


def join(blocks: Sequence[Block]) -> Block:
    """One block of many that follow each other in time."""
    index: dict[Labels, int] = {}
    for block in blocks:
        for key in block.keys:
            index.setdefault(key, len(index))
    times = np.concatenate([b.times for b in blocks]) if blocks else np.empty(0)
    values = np.full((len(times), len(index)), np.nan)
    row = 0
    for block in blocks:
        end = row + len(block.times)
        values[row:end, [index[key] for key in block.keys]] = block.values
        row = end
    return Block(list(index), times, values)


def pack(block: Block) -> bytes:
    """The block as bytes; `unpack` gives it back exactly."""
    packed = _Packed(block.keys, _shuffled(block.times), _shuffled(block.values.T))
    return zlib.compress(msgspec.msgpack.encode(packed), 1)


def unpack(data: bytes) -> Block:
    """The block that `pack` was given; raises ValueError when the bytes are damaged."""
    try:
        packed = msgspec.msgpack.decode(zlib.decompress(data), type=_Packed)
        times = _unshuffled(packed.times)
        values = _unshuffled(packed.values).reshape(len(packed.keys), len(times)).T
    except (zlib.error, msgspec.MsgspecError, ValueError) as error:
        raise ValueError(f"a piece of history is damaged: {error}") from error
    return Block(packed.keys, times, values)


def _shuffled(values: Floats) -> bytes:
    # Neighbouring readings share their high bytes: laid side by side, those compress well.
    flat = np.ascontiguousarray(values, dtype="<f8").view(np.uint8).reshape(-1, 8)
    return flat.T.tobytes()


def _unshuffled(data: bytes) -> Floats:
    flat = np.frombuffer(data, np.uint8).reshape(8, -1).T
    values: Floats = np.ascontiguousarray(flat).view("<f8").reshape(-1).astype(np.float64)
    return values
