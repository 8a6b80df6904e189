"""Keeps a flood of the same kernel fault from drowning everything: the first passes, repeats count.

A broken GPU may write the same XID hundreds of thousands of times. Nothing is lost to a reader:
an event without `repeats` stands for one line, one with `repeats=N` for N more.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from gpudiag.probes import MAX_LINE, Event
from gpudiag.probes.kernel_lines import RECOVERY_CHANGED, KernelFact, strip_prefix

# Ten minutes apart must be two events, one job's teardown must be one: five lies between.
QUIET_SECONDS = 300.0
SUMMARY_SECONDS = 60.0
MAX_RUNS = 1024

Key = tuple[str, str, int | None, str, str]


class Told(NamedTuple):
    """A recognised kernel line: `time` epoch seconds, `seq` its number in the kernel's log."""

    time: float
    seq: int | None
    text: str
    fact: KernelFact


@dataclass(slots=True)
class _Run:
    last: Told
    emitted: float
    repeats: int = 0


def _key(fact: KernelFact) -> Key:
    apart = fact.name
    if fact.kind == "xid":
        # The process of an XID is incidental, but each new recovery verdict is news.
        apart = fact.detail if fact.code == RECOVERY_CHANGED else ""
    elif fact.kind == "oom_kill":
        apart = str(fact.pid)
    return (fact.kind, fact.pci, fact.code, fact.severity, apart)


def event_of(told: Told, repeats: int = 0) -> Event:
    """The event of one line, or of the last of `repeats` further ones."""
    fact = told.fact
    pairs = {
        "pci": fact.pci,
        "code": "" if fact.code is None else str(fact.code),
        "pid": "" if fact.pid is None else str(fact.pid),
        "name": fact.name,
        "severity": fact.severity,
        "detail": fact.detail,
        "seq": "" if told.seq is None else str(told.seq),
        "repeats": str(repeats or ""),
    }
    fields = {name: value for name, value in pairs.items() if value}
    return Event(told.time, "kmsg", strip_prefix(told.text)[:MAX_LINE], fact.kind, fields)


class Repeats:
    """The runs of equal faults that are going on; at most `MAX_RUNS` are remembered."""

    def __init__(self) -> None:
        self.total = 0
        self._runs: OrderedDict[Key, _Run] = OrderedDict()

    def admit(self, told: Told) -> Sequence[Event]:
        """What must be passed on because of this line: itself, a summary, or nothing."""
        key = _key(told.fact)
        run = self._runs.get(key)
        if run is None or told.time - run.last.time > QUIET_SECONDS:
            return self._begin(key, told)
        self.total += 1
        # The kernel tells each OOM kill in two lines; the second is no second kill.
        if told.fact.kind == "oom_kill":
            return ()
        run.last = told
        run.repeats += 1
        if 0 <= told.time - run.emitted < SUMMARY_SECONDS:
            return ()
        return (_summary(run, told.time),)

    def _begin(self, key: Key, told: Told) -> Sequence[Event]:
        old = self._runs.pop(key, None)
        if old is None and len(self._runs) >= MAX_RUNS:
            _, old = self._runs.popitem(last=False)
        self._runs[key] = _Run(told, told.time)
        if old is not None and old.repeats:
            return _summary(old, told.time), event_of(told)
        return (event_of(told),)

    def due(self, now: float) -> Iterator[Event]:
        """Summaries of the repeats that nobody has been told of for a minute; forgets old runs."""
        for key, run in list(self._runs.items()):
            if run.repeats and not 0 <= now - run.emitted < SUMMARY_SECONDS:
                yield _summary(run, now)
            elif not run.repeats and now - run.last.time > QUIET_SECONDS:
                del self._runs[key]


def _summary(run: _Run, now: float) -> Event:
    repeats, run.repeats, run.emitted = run.repeats, 0, now
    return event_of(run.last, repeats)
