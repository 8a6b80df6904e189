"""Many logs followed at once, each in turn and within a budget of bytes; known lines come out."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from gpudiag.probes.logs.elastic import Block
from gpudiag.probes.logs.framing import Framing, Unframed
from gpudiag.probes.logs.lines import LogFact, parse
from gpudiag.probes.logs.places import MAX_FILES, Place
from gpudiag.probes.logs.sieve import Sieve
from gpudiag.probes.logs.tail import Position, Tail

PATIENCE = 3
"""Reads without anything new after which a block that never ended is told as it stands."""


class Line(NamedTuple):
    """A known line: where it was written, its text as it came, its fact, and when, if stamped."""

    place: Place
    text: str
    fact: LogFact
    time: float | None


class _Log:
    def __init__(self, place: Place, tail: Tail) -> None:
        self.place, self.tail = place, tail
        self.framing, self.block = Framing(), Block()
        self.idle = self._reads = 0
        self._held: list[Line] = []

    def settled(self, found: list[Line], *, ended: bool) -> Iterator[Line]:
        """What is to be told now: an exit waits for the block that says whose it was."""
        retold = {line.fact.fields.get("pid") for line in found if "rank" in line.fact.fields}
        bare = [line for line in found if line.fact.kind == "exit" and line.fact.rank == ""]
        self._held = [line for line in self._held if line.fact.fields.get("pid") not in retold]
        if bare:
            self._reads = 0
            self._held += [one for one in bare if one.fact.fields.get("pid") not in retold]
        self._reads += 1
        if ended or self._reads > PATIENCE:
            yield from self._held
            self._held = []
        yield from (line for line in found if line not in bare)

    def renew(self, position: Position | None = None) -> list[bytes]:
        """The last line of the old file; the next read opens the new one, at its start."""
        last = self.tail.close()
        cut, skipped = self.tail.cut, self.tail.skipped
        self.tail = Tail(self.place.path, position)
        self.tail.cut, self.tail.skipped = cut, skipped
        return last


class Following:
    """The logs; `known` are the positions of the last run, None where there was none."""

    def __init__(self, known: Mapping[Path, Position | None] | None) -> None:
        self._known, self._begun = dict(known or {}), known is not None
        self._logs: dict[Path, _Log] = {}
        self._refused: set[Path] = set()
        self._sieve = Sieve()
        self._gone_cut = self._gone_skipped = 0

    @property
    def number(self) -> int:
        """How many logs are followed."""
        return len(self._logs)

    @property
    def unreadable(self) -> int:
        """How many logs are there and may not be read."""
        return len(self._refused)

    @property
    def cut(self) -> int:
        """Lines that were too long to be kept whole."""
        return self._gone_cut + sum(one.tail.cut for one in self._logs.values())

    @property
    def skipped(self) -> int:
        """Bytes passed over because a log grew faster than it may cost."""
        return self._gone_skipped + sum(one.tail.skipped for one in self._logs.values())

    def follow(self, found: Iterable[Place], *, skip: Collection[tuple[int, int]] = ()) -> None:
        """Take up logs that are new among `found`; `skip` are files (device, inode) never read."""
        self._refused.clear()
        wanted = {place.path: place for place in found}
        if len(self._logs.keys() | wanted.keys()) > MAX_FILES:
            for path in self._logs.keys() - wanted.keys():
                self._known[path] = self._logs[path].tail.position
                self._forget(path)
        for path in wanted.keys() - self._logs.keys():
            self._take_up(wanted[path], skip)
        self._begun = True

    def _take_up(self, place: Place, skip: Collection[tuple[int, int]]) -> None:
        try:
            of = place.path.stat()
            if (of.st_dev, of.st_ino) in skip:
                return
            position = self._known.pop(place.path, None)
            if not self._begun:
                position = Position(of.st_dev, of.st_ino, of.st_size)
            tail = Tail(place.path, position)
            if tail.open():
                self._logs[place.path] = _Log(place, tail)
        except OSError:
            self._refused.add(place.path)

    def lines(self, most: int, least: int) -> Iterator[Line]:
        """What is known of what was written since, of at most `most` bytes of all logs."""
        share = max(most // max(len(self._logs), 1), least)
        for path, one in list(self._logs.items()):
            yield from self._of(path, one, share)

    def _of(self, path: Path, one: _Log, share: int) -> Iterator[Line]:
        try:
            raw = one.tail.read(share) if one.tail.open() else []
            if one.tail.drained() and one.tail.replaced():
                raw += one.renew()
                if not path.exists():
                    self._forget(path)
        except OSError:
            self._refused.add(path)
            raw = one.renew(one.tail.position)
        found = list(self._known_lines(one, raw))
        one.idle = 0 if raw else one.idle + 1
        ended = path not in self._logs
        if one.idle == PATIENCE or ended:
            found += [Line(one.place, fact.text, fact, None) for fact in one.block.finish()]
        yield from one.settled(found, ended=ended)

    def _forget(self, path: Path) -> None:
        gone = self._logs.pop(path)
        gone.tail.close()
        self._gone_cut += gone.tail.cut
        self._gone_skipped += gone.tail.skipped

    def _known_lines(self, one: _Log, raw: Sequence[bytes]) -> Iterator[Line]:
        for line in raw:
            whole = one.framing.whole(line)
            if whole is not None:
                yield from self._judged(one, whole)

    def _judged(self, one: _Log, whole: Unframed) -> Iterator[Line]:
        # A block's ruler and its fields hold no needle: while one is open every line is read.
        block = one.block.is_open or b"Failures:" in whole.raw or b"Root Cause" in whole.raw
        if not block and not self._sieve.passes(whole.raw):
            return
        text = whole.raw.decode("utf-8", "replace")
        taken, facts = one.block.take(text)
        if taken:
            yield from (Line(one.place, fact.text, fact, whole.time) for fact in facts)
            return
        fact = parse(text)
        if fact is not None:
            yield Line(one.place, text, fact, whole.time)

    def positions(self) -> dict[Path, Position]:
        """Where the next run goes on, by log."""
        found = ((path, one.tail.position) for path, one in self._logs.items())
        return {path: position for path, position in found if position}

    def close(self) -> None:
        """Give all files back."""
        for one in self._logs.values():
            one.tail.close()
