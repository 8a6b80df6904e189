"""XID errors as the kernel told them or as their counters rose, by GPU: each once."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from gpudiag.agent.rules._gpus import INFO, MEASURED, by_bus, gpu, known
from gpudiag.agent.rules._lines import kernel_facts
from gpudiag.agent.rules.contract import Subject, subject
from gpudiag.agent.window import Series, Window
from gpudiag.probes import Event
from gpudiag.probes.catalog.xid import recovery_of
from gpudiag.probes.kernel_lines import KernelFact

COUNTER = "gpudiag_gpu_xid_errors_total"
VERDICT = "gpudiag_gpu_recovery_action"
# Where a counter appears only with its first error, these tell that the recording ran before.
RUNNING = (INFO, *MEASURED)
READS = frozenset({COUNTER, VERDICT, *RUNNING})

FALLEN_OFF = 79
RECOVERY_CHANGED = 154

RAW = 7200.0
# A counter is read some time after the line was written, at most two of the longest intervals.
SAME = 120.0
APPEARED = 10.0

_NEEDLES = ("Xid (", "fallen off the bus", "reset", "NVRM: loading")
_KINDS = ("xid", "fallen_off_bus", "gpu_reset", "driver_load")
_STILL_TO_COME = re.compile(r"requir|need|pending|fail|not ready")


class Sighting(NamedTuple):
    """One XID: `number` of them at `time`; `line` is empty where only the counter told."""

    time: float
    code: int
    number: int
    line: str = ""
    detail: str = ""
    pid: int | None = None
    process: str = ""
    guessed: bool = False


class Log(NamedTuple):
    """XIDs by GPU, oldest first, and when each GPU was last reset (() = every GPU)."""

    seen: dict[Subject, list[Sighting]]
    resets: dict[Subject, float]


def read(window: Window, seconds: float) -> Log:
    """The XIDs of the last `seconds`, from lines and from counters, each once."""
    rises = list(_rises(window, seconds))
    facts = kernel_facts(window, seconds, _KINDS, _NEEDLES)
    told = window.events(seconds, source="nvml", kind="xid")
    if not facts and not rises and not told:
        return Log({}, {})
    seen: defaultdict[Subject, list[Sighting]] = defaultdict(list)
    resets: dict[Subject, float] = {}
    places = _Places(window, rises)
    for event, fact in facts:
        if fact.kind == "driver_load":
            resets[()] = event.time
        elif fact.kind == "gpu_reset":
            if not _STILL_TO_COME.search(fact.detail):
                resets[places.find(event, fact.pci, 0)[0]] = event.time
        elif fact.kind == "xid" and fact.code is not None:
            where, guessed = places.find(event, fact.pci, fact.code)
            seen[where].append(_sighting(event, fact, fact.code, guessed))
    for event, fact in facts:
        if fact.kind == "fallen_off_bus":
            where, guessed = places.find(event, fact.pci, FALLEN_OFF)
            _add(seen[where], _sighting(event, fact, FALLEN_OFF, guessed))
    # The driver tells of XIDs whose line the kernel's log has lost, and the other way round.
    for uuid, sighting in [*map(_by_driver, told), *rises]:
        _add(seen[gpu(uuid)], sighting)
    return Log({where: sorted(told) for where, told in seen.items() if told}, resets)


def _by_driver(event: Event) -> tuple[str, Sighting]:
    return event.fields["uuid"], Sighting(event.time, int(event.fields["xid"]), 1, event.line)


def _sighting(event: Event, fact: KernelFact, code: int, guessed: bool) -> Sighting:
    number = int(event.fields.get("repeats") or 1)
    said = (event.line, fact.detail, fact.pid, fact.name)
    return Sighting(event.time, code, number, *said, guessed)


def _add(told: list[Sighting], more: Sighting) -> None:
    """Take another source's word unless a line said the same at about that time."""
    if not any(s.code == more.code and s.line and abs(s.time - more.time) <= SAME for s in told):
        told.append(more)


def recovered(window: Window, log: Log, where: Subject) -> float:
    """When the GPU last came back: a reset, a driver load, the driver's own word; else -inf."""
    times = [log.resets.get(where, -float("inf")), log.resets.get((), -float("inf"))]
    for sighting in log.seen.get(where, ()):
        if sighting.code == RECOVERY_CHANGED:
            verdict = recovery_of(sighting.detail)
            times += [sighting.time] if verdict and verdict.action == "none" else []
    for series in window.series(VERDICT, RAW, **dict(where)):
        asked = series.values != 0.0
        # Zero counts only after another value: before the fault it was zero as well.
        if len(asked) and asked.any() and not asked[-1]:
            times.append(float(series.times[asked.nonzero()[0][-1]]))
    return max(times)


@lru_cache(maxsize=256)
def _device(pci: str) -> Subject:
    return subject(device=pci) if pci else ()


class _Places:
    """From an event to the GPU it is about."""

    def __init__(self, window: Window, rises: list[tuple[str, Sighting]]) -> None:
        self._bus = by_bus(window)
        self._rises = rises
        self._known = known(window)
        self._found: dict[tuple[str, str], tuple[Subject, bool] | None] = {}

    def find(self, event: Event, pci: str, code: int) -> tuple[Subject, bool]:
        """The GPU, or its bus address where nothing joins the two; True when it was inferred."""
        if "uuid" in event.fields:
            return gpu(event.fields["uuid"]), False
        key = event.fields.get("node", ""), pci
        if key not in self._found:
            self._found[key] = self._at(*key)
        moved = {u for u, r in self._rises if r.code == code and abs(r.time - event.time) <= SAME}
        by_counter = self._only(moved)
        if by_counter and self._found[key] is None:
            return gpu(by_counter), True
        return self._found[key] or (_device(pci), False)

    def _at(self, node: str, pci: str) -> tuple[Subject, bool] | None:
        uuid = self._bus.get((node, pci)) or self._only(
            {uuid for (_, address), uuid in self._bus.items() if address == pci}
        )
        if uuid:
            return gpu(uuid), False
        # One GPU and no address known: there is nothing else that it could be about.
        only = None if self._bus else self._only(set(self._known))
        return (gpu(only), True) if only else None

    @staticmethod
    def _only(uuids: set[str]) -> str | None:
        return next(iter(uuids)) if len(uuids) == 1 else None


def _rises(window: Window, seconds: float) -> Iterator[tuple[str, Sighting]]:
    counted = [p for p in window.latest(COUNTER) if p.value > 0.0]
    if not counted:
        return
    began = min(_first(s) for m in (*RUNNING, COUNTER) for s in window.series(m, RAW))
    for point in counted:
        labels = point.labels
        if not labels.get("xid", "").isdigit() or "uuid" not in labels:
            continue
        for series in window.series(COUNTER, min(seconds, RAW), **labels):
            for time, count in _jumps(series, began):
                yield labels["uuid"], Sighting(time, int(labels["xid"]), count)


def _first(series: Series) -> float:
    return float(series.times[0]) if len(series.times) else float("inf")


def _jumps(series: Series, began: float) -> Iterator[tuple[float, int]]:
    if not len(series.times):
        return
    if series.values[0] > 0.0 and series.times[0] > began + APPEARED:
        yield float(series.times[0]), int(series.values[0])
    steps = series.values[1:] - series.values[:-1]
    for row in (steps > 0.0).nonzero()[0]:
        yield float(series.times[row + 1]), int(steps[row])
