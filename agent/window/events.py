"""The events of the last two days, in order, within a bound of number and of size."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import takewhile

from gpudiag.probes import Event

EVENT_SECONDS = 48 * 3600.0
MAX_EVENTS = 10_000
MAX_CHARACTERS = 2 << 20
"""Both per kind of source, so that a talkative log cannot push out what the kernel said."""

SAME_SECONDS = 2.0
RETELLING_SECONDS = 600.0
MAX_UNSAVED = 2000


class _Lane:
    """The events of one kind of source, ordered by time and bounded."""

    def __init__(self) -> None:
        self.held: deque[Event] = deque()
        self._characters = 0

    def insert(self, event: Event) -> None:
        later: list[Event] = []
        while self.held and self.held[-1].time > event.time:
            later.append(self.held.pop())
        self.held.append(event)
        self.held.extend(reversed(later))
        self._characters += len(event.line)
        while len(self.held) > MAX_EVENTS or self._characters > MAX_CHARACTERS:
            self._drop()

    def expire(self, before: float) -> None:
        while self.held and self.held[0].time < before:
            self._drop()

    def _drop(self) -> None:
        self._characters -= len(self.held.popleft().line)

    def back_to(self, since: float) -> Iterator[Event]:
        """Newest first."""
        return takewhile(lambda event: event.time >= since, reversed(self.held))


class Events:
    """Events ordered by time; of each kind of source the oldest leave when it says too much.

    `unsaved` are the newest 2,000 at most since the last save.
    """

    def __init__(self) -> None:
        self.unsaved: deque[Event] = deque(maxlen=MAX_UNSAVED)
        self._lanes: defaultdict[str, _Lane] = defaultdict(_Lane)
        self._retold_until = 0.0
        self._restored: defaultdict[tuple[str, str], list[float]] = defaultdict(list)

    def add(self, event: Event) -> None:
        """Take one event, in its place by time, unless it is one that was restored, read again."""
        if self._restored and self._told_before(event):
            return
        self.unsaved.append(event)
        self._insert(event)

    def restore(self, events: Iterable[Event], now: float) -> None:
        """Take back saved events. A log read anew from its start will tell each of them again."""
        self._retold_until = now + RETELLING_SECONDS
        for event in events:
            self._insert(event)
            self._restored[event.source, event.line].append(event.time)

    def _told_before(self, event: Event) -> bool:
        # Each restored event answers for one telling, so that a true repetition still counts.
        times = self._restored.get((event.source, event.line), [])
        for at, time in enumerate(times):
            if abs(time - event.time) <= SAME_SECONDS:
                del times[at]
                return True
        return False

    def _insert(self, event: Event) -> None:
        self._lanes[_kind(event.source)].insert(event)

    def expire(self, now: float) -> None:
        """Let go of what is older than two days."""
        if now > self._retold_until:
            self._restored.clear()
        for lane in self._lanes.values():
            lane.expire(now - EVENT_SECONDS)

    def between(self, since: float, until: float, source: str, kind: str) -> list[Event]:
        """Events of `since` <= time <= `until`, oldest first; an empty filter lets all pass."""
        lanes = [self._lanes[_kind(source)]] if source else list(self._lanes.values())
        found = [
            event
            for lane in lanes
            for event in lane.back_to(since)
            if event.time <= until and source in ("", event.source) and kind in ("", event.type)
        ]
        found.reverse()
        if len(lanes) > 1:
            found.sort(key=lambda event: event.time)
        return found

    def shift(self, seconds: float) -> None:
        """Move every event in time, after the clock jumped."""
        for lane in self._lanes.values():
            lane.held = deque(replace(event, time=event.time + seconds) for event in lane.held)
        moved = [replace(event, time=event.time + seconds) for event in self.unsaved]
        self.unsaved = deque(moved, maxlen=MAX_UNSAVED)
        self._retold_until += seconds
        for times in self._restored.values():
            times[:] = [time + seconds for time in times]


def _kind(source: str) -> str:
    """`log:trainer` and `log:server` are of one kind."""
    return source.partition(":")[0]
