"""Memory and context switches of the training, loader and serving processes, and of no others.

Its own probe: reading a process's shared memory waits for that process's memory lock, which one
stuck in a driver call may hold for ever.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Literal, NamedTuple

from gpudiag.probes import Labels, Record, Sample, labels

PSS_EVERY_SECONDS = 30.0

Role = Literal["trainer", "loader", "server", "other"]


class Watched(NamedTuple):
    """A process to look at; `job` and `rank` are "" where unknown."""

    pid: int
    role: Role
    job: str = ""
    rank: str = ""


def parse_fields(text: str) -> dict[str, int]:
    """The whole numbers of /proc/PID/status or smaps_rollup by name, as written (kB or count)."""
    found = {}
    for line in text.splitlines():
        name, _, rest = line.partition(":")
        words = rest.split()
        if words and words[0].isdigit():
            found[name] = int(words[0])
    return found


SWITCHES = (
    ("voluntary", "voluntary_ctxt_switches"),
    ("involuntary", "nonvoluntary_ctxt_switches"),
)


class Processes:
    """The probe; `watched` is asked at each read which processes there are."""

    name = "processes"
    cadence = 5.0
    metrics = frozenset(
        {
            "gpudiag_process_resident_bytes",
            "gpudiag_process_pss_bytes",
            "gpudiag_process_context_switches_total",
        }
    )

    def __init__(
        self,
        watched: Callable[[], Iterable[Watched]],
        proc: Path = Path("/proc"),
        *,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._watched, self._proc, self._clock, self._monotonic = watched, proc, clock, monotonic
        self._pss_due: dict[Watched, float] = {}

    def read(self) -> Iterator[Record]:
        """What is known of each that still runs; the shared memory every half minute."""
        watched = list(self._watched())
        self._pss_due = {one: self._pss_due.get(one, 0.0) for one in watched}
        for one in watched:
            yield from self._of(one)

    def close(self) -> None:
        """Nothing is held."""

    def _of(self, one: Watched) -> Iterator[Sample]:
        fields = self._fields(one, "status")
        now, pairs = self._clock(), _pairs(one)
        # A zombie has no VmRSS: it is absent, not empty.
        if "VmRSS" in fields:
            yield Sample("gpudiag_process_resident_bytes", pairs, now, fields["VmRSS"] * 1024.0)
        for kind, name in SWITCHES:
            if name in fields:
                metric = "gpudiag_process_context_switches_total"
                yield Sample(metric, labels(**dict(pairs), kind=kind), now, float(fields[name]))
        if "VmRSS" in fields and self._monotonic() >= self._pss_due[one]:
            self._pss_due[one] = self._monotonic() + PSS_EVERY_SECONDS
            shared = self._fields(one, "smaps_rollup")
            if "Pss" in shared:
                yield Sample("gpudiag_process_pss_bytes", pairs, now, shared["Pss"] * 1024.0)

    def _fields(self, one: Watched, name: str) -> dict[str, int]:
        try:
            return parse_fields((self._proc / str(one.pid) / name).read_text("utf-8", "replace"))
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            return {}


def _pairs(one: Watched) -> Labels:
    pairs = {"pid": str(one.pid), "role": one.role, "job": one.job, "rank": one.rank}
    return labels(**{name: value for name, value in pairs.items() if value})
