"""What the exporters may see of the running agent, and how they read it without disturbing it."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from gpudiag.agent.findings.finding import Finding
from gpudiag.agent.scheduler import ProbeStatus
from gpudiag.probes import Event, Labels

Floats = npt.NDArray[np.float64]

Reading = tuple[str, Labels, float, float]
"""(metric, labels, time in epoch seconds, value in the metric's base unit)."""

Missing = tuple[str, tuple[str, ...]]
"""A symptom of which it cannot be told whether it is there, and the inputs that would tell."""

SNAPSHOT_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class AgentInfo:
    """Who is speaking. `mode` is what actions do (dry-run, ...), `started` epoch seconds.

    Of a replay `started` and `replay_until` are the recording's first and last moment.
    """

    node: str
    job: str
    version: str
    mode: str
    started: float
    replay: bool = False
    revision: str = ""
    replay_until: float | None = None


class View(Protocol):
    """The running agent, read-only. Every method may be called from any thread.

    The window has one writer; the owner guards these calls with the lock it holds while it writes
    or evaluates, and gives back records and fresh lists, never its own containers.
    """

    @property
    def info(self) -> AgentInfo: ...

    def now(self) -> float:
        """The agent's clock, epoch seconds; in a replay the recording's."""

    def generation(self) -> int:
        """A number that changes whenever samples, findings or probe states did."""

    def samples(self) -> Iterable[Reading]:
        """Every fresh series, with the agent's own counters; what is stale is not among them."""

    def history(self, metric: str, seconds: float, labels: Labels) -> tuple[Floats, Floats]:
        """Times and values of that series in the last `seconds`; empty where none are kept."""

    def events(self, seconds: float, source: str, kind: str) -> list[Event]:
        """Events of the last `seconds`, oldest first; an empty `source` or `kind` means any."""

    def findings(self) -> list[Finding]:
        """Pending, firing and recently resolved ones."""

    def past(self, since: float, until: float) -> list[Finding]:
        """Those that fired at any moment from `since` to `until`, newest first, 30 days back."""

    def unknown(self) -> list[Missing]: ...

    def probes(self) -> list[ProbeStatus]: ...


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What the view said at one moment; immutable, so that any thread may keep it."""

    generation: int
    now: float
    info: AgentInfo
    samples: tuple[Reading, ...]
    findings: tuple[Finding, ...]
    unknown: tuple[Missing, ...]
    probes: tuple[ProbeStatus, ...]


class Snapshots:
    """Snapshots of a view, shared by all exporters: any number of readers cost one.

    The same object comes back until the generation changes; after a second of the view's clock it
    is taken anew in any case, because series go stale by the passing of time alone.
    """

    def __init__(self, view: View) -> None:
        self.view = view
        self._lock = threading.Lock()
        self._taken: Snapshot | None = None

    def get(self) -> Snapshot:
        """The newest snapshot, from any thread."""
        with self._lock:
            taken = self._taken
            generation, now = self.view.generation(), self.view.now()
            if (
                taken is None
                or taken.generation != generation
                or not taken.now <= now < taken.now + SNAPSHOT_SECONDS
            ):
                taken = self._taken = self._take(generation, now)
            return taken

    def _take(self, generation: int, now: float) -> Snapshot:
        view = self.view
        return Snapshot(
            generation=generation,
            now=now,
            info=view.info,
            samples=tuple(view.samples()),
            findings=tuple(view.findings()),
            unknown=tuple(view.unknown()),
            probes=tuple(view.probes()),
        )
