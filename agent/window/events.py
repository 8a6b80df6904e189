"""The events of the last two days, in order, within a bound of number and of size."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable
from dataclasses import replace

from gpudiag.probes import Event

EVENT_SECONDS = 48 * 3600.0
MAX_EVENTS = 20_000
MAX_CHARACTERS = 4 << 20
SAME_SECONDS = 2.0
RETELLING_SECONDS = 600.0
MAX_UNSAVED = 2000


class Events:
    """Events ordered by time; the oldest leave when there are too many or they are too long.

    `unsaved` are the newest 2,000 at most since the last save.
    """

    def __init__(self) -> None:
        self.unsaved: deque[Event] = deque(maxlen=MAX_UNSAVED)
        self._held: deque[Event] = deque()
        self._characters = 0
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
        later: list[Event] = []
        while self._held and self._held[-1].time > event.time:
            later.append(self._held.pop())
        self._held.append(event)
        self._held.extend(reversed(later))
        self._characters += len(event.line)
        while len(self._held) > MAX_EVENTS or self._characters > MAX_CHARACTERS:
            self._characters -= len(self._held.popleft().line)

    def expire(self, now: float) -> None:
        """Let go of what is older than two days."""
        if now > self._retold_until:
            self._restored.clear()
        while self._held and self._held[0].time < now - EVENT_SECONDS:
            self._characters -= len(self._held.popleft().line)

    def between(self, since: float, until: float, source: str, kind: str) -> list[Event]:
        """Events of `since` <= time <= `until`, oldest first; an empty filter lets all pass."""
        found: list[Event] = []
        for event in reversed(self._held):
            if event.time < since:
                break
            if event.time <= until and source in ("", event.source) and kind in ("", event.type):
                found.append(event)
        return found[::-1]

    def shift(self, seconds: float) -> None:
        """Move every event in time, after the clock jumped."""
        self._held = deque(replace(event, time=event.time + seconds) for event in self._held)
        moved = [replace(event, time=event.time + seconds) for event in self.unsaved]
        self.unsaved = deque(moved, maxlen=MAX_UNSAVED)
        self._retold_until += seconds
        for times in self._restored.values():
            times[:] = [time + seconds for time in times]
