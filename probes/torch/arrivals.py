"""When this rank came to each collective, from torch's flight recorder: no hook, no clock sync."""

from __future__ import annotations

import contextlib
import gc
import time
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from gpudiag.probes.torch.features import Features
from gpudiag.probes.torch.groups import group_name
from gpudiag.probes.torch.meter import Value

MOST = 256
# A dump of 2000 entries takes 20 ms of a core beside training: about 1 in 250 of it at the most.
SHARE = 250
LONGEST = 16.0

Entry = tuple[int, int, int | None]
"""Sequence number in the group, created (epoch ns), duration (ns; None where not timed)."""


class Arrivals:
    """Reads the recorders of all backends; for the helper thread.

    On NCCL the time is that of enqueueing by the CPU, which may run ahead of the GPU; durations
    are there with `TORCH_NCCL_ENABLE_TIMING=1`.
    """

    def __init__(self, features: Features) -> None:
        self._dumps = (features.flight_recorder, features.nccl_recorder)
        self._last: dict[str, int] = {}
        # The status goes by a number of this process alone; entries tell the group's name.
        self._names = {"0": "default"}
        self._next = 0.0

    def sequences(self) -> list[Value]:
        """Last collective of each group, enqueued and completed; cheap, with no entries read."""
        values: list[Value] = []
        for dump in self._dumps:
            content = dump(False) or {}
            for group, status in content.get("pg_status", {}).items():
                if group in self._names:
                    values += _sequence(self._names[group], status)
        return values

    def entries(self, now: float, rare: bool = False) -> dict[str, list[Entry]]:
        """The collectives since the last call, by group, the newest `MOST` of each.

        Empty until `now` (epoch seconds) reaches the time that the cost of the last allows. All
        ranks of a node look at the same moments, else their newest would not be the same ones.
        `rare` where the wait for others is measured by other means too.
        """
        if self._next - LONGEST <= now < self._next:
            return {}
        start = time.thread_time()
        found: dict[str, list[Entry]] = defaultdict(list)
        with _no_collection():
            for dump in self._dumps:
                for entry in (dump(True) or {}).get("entries", []):
                    self._sort(entry, found)
        period = LONGEST if rare else _period((time.thread_time() - start) * SHARE)
        self._next = (now // period + 1.0) * period
        for group, entries in found.items():
            self._last[group] = max(entry[0] for entry in entries)
        return {group: entries[-MOST:] for group, entries in found.items()}

    def _sort(self, entry: dict[str, Any], found: dict[str, list[Entry]]) -> None:
        if entry.get("is_p2p"):
            return
        number, description = entry["process_group"]
        group, sequence = group_name(str(number), str(description)), entry["collective_seq_id"]
        self._names[str(entry["pg_id"])] = group
        if sequence > self._last.get(group, 0):
            duration = entry.get("duration_ms")
            nanoseconds = None if duration is None else int(duration * 1e6)
            found[group].append((sequence, entry["time_created_ns"], nanoseconds))


@contextlib.contextmanager
def _no_collection() -> Iterator[None]:
    """Thousands of dicts at once would have the collector walk over all that training holds."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


def _period(seconds: float) -> float:
    """The power of two next above, so that the times of a longer period are those of a shorter."""
    period = 1.0
    while period < min(seconds, LONGEST):
        period *= 2.0
    return period


def _sequence(name: str, status: dict[str, int]) -> list[Value]:
    return [
        ("gpudiag_train_collective_sequence", {"group": name, "state": state}, float(number))
        for state in ("enqueued", "completed")
        if (number := status.get(f"last_{state}_collective", -1)) >= 0
    ]
