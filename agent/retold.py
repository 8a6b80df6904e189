"""After a restart the kernel's ring is read again from its oldest record: tell nothing twice."""

from __future__ import annotations

from collections.abc import Iterable

from gpudiag.probes import Event

SAME_SECONDS = 2.0
"""The boot time behind kernel stamps is read anew each start and may differ by this much."""


class Retold:
    """Knows the kernel lines that were remembered from before the restart."""

    def __init__(self, remembered: Iterable[Event]) -> None:
        self._times: dict[str, list[float]] = {}
        for event in remembered:
            if event.source == "kmsg":
                self._times.setdefault(event.line, []).append(event.time)

    def fresh(self, events: Iterable[Event]) -> list[Event]:
        """Those of `events` that were not there before; each remembered one is matched once."""
        return [event for event in events if not self._known(event)]

    def _known(self, event: Event) -> bool:
        times = self._times.get(event.line, []) if event.source == "kmsg" else []
        for time in times:
            if abs(time - event.time) <= SAME_SECONDS:
                times.remove(time)
                return True
        return False
