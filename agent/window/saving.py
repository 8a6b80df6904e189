"""Carries a window's tables and events to its archive and back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace

from gpudiag.agent.window.archive import Archive, Batch, SavedHead
from gpudiag.agent.window.block import Block, cut, pack
from gpudiag.agent.window.events import EVENT_SECONDS, Events
from gpudiag.agent.window.grid import Grid
from gpudiag.agent.window.minutes import MINUTE, STATS
from gpudiag.agent.window.table import LATE_SECONDS, Head, Table
from gpudiag.probes import Event

RAW = "raw"


def grids(table: Table) -> Iterator[tuple[str, Grid]]:
    """The grids of a table with the kind under which each is archived."""
    if table.raw is not None:
        yield RAW, table.raw
    if table.minutes is not None:
        yield from table.minutes.grids.items()


def save(
    archive: Archive, tables: Mapping[str, Table], events: Events, now: float, offset: float
) -> None:
    """Save all that changed since the last time; what the disk did not take stays to be saved."""
    kept = [table for table in tables.values() if table.raw is not None]
    batch = Batch(
        shift=offset,
        chunks=[chunk for table in kept for chunk in _chunks(table)],
        heads=[(table.metric, _heads(table.heads.values())) for table in kept],
        events=[replace(event, time=event.time - offset) for event in events.unsaved],
        expire={kind: now - grid.span - grid.block for t in kept for kind, grid in grids(t)},
        expire_events=now - EVENT_SECONDS,
    )
    if not archive.save(batch, now + offset):
        return
    events.unsaved.clear()
    for table in kept:
        for _, grid in grids(table):
            grid.saved()


def _chunks(table: Table) -> Iterator[tuple[str, str, float, bytes]]:
    for kind, grid in grids(table):
        start = max(grid.unsaved // grid.block * grid.block, grid.floor)
        while len(grid.times) and start <= grid.times[-1]:
            yield kind, table.metric, start, pack(cut(grid, start, start + grid.block))
            start += grid.block


def _heads(heads: Iterable[Head]) -> list[SavedHead]:
    return [SavedHead(h.labels, h.time, h.value, h.gap, h.limit) for h in heads]


def events(archive: Archive, now: float, offset: float) -> list[Event]:
    """The saved events on the clock's times."""
    return [replace(event, time=event.time + offset) for event in archive.events(now)]


def restore(
    archive: Archive, table_of: Callable[[str], Table], kept: frozenset[str], wall: float
) -> float:
    """Fill the tables of the `kept` metrics as the last save left them; gives the clock offset."""
    offset = archive.shift(wall)
    now = wall - offset
    for metric, heads in archive.heads(wall):
        if metric not in kept:
            continue
        table = table_of(metric)
        _restore_heads(table, heads, now)
        for kind, grid in grids(table):
            floor, end = (now - grid.saved_span) // grid.block * grid.block, now + LATE_SECONDS
            _restore_grid(grid, archive.block(kind, metric, floor, end, wall), floor, end)
        if table.minutes is not None and len(table.minutes.grids[STATS[0]].times):
            table.minutes.closed = float(table.minutes.grids[STATS[0]].times[-1]) + MINUTE
    archive.close()
    return offset


def _restore_heads(table: Table, heads: Iterable[SavedHead], now: float) -> None:
    for saved in heads:
        if saved.time <= now + LATE_SECONDS:
            head = table.open(saved.labels)
            head.time, head.value = saved.time, saved.value
            head.gap, head.limit = saved.gap, saved.limit


def _restore_grid(grid: Grid, block: Block, floor: float, end: float) -> None:
    columns = [grid.column(key) for key in block.keys]
    values = grid.blank(len(block.times))
    values[:, columns] = block.values
    grid.floor = floor
    grid.replace(floor, block.times, values, end)
    grid.cut_after(end)
    grid.saved()
