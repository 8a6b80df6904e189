"""How a training process ended: by itself, by its parent's word, by the kernel, or unknown."""

from __future__ import annotations

import signal
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gpudiag.agent.channel.packets import Bye, Exit, line_of
from gpudiag.agent.channel.place import ended, oom_kills
from gpudiag.agent.channel.rank import Rank
from gpudiag.agent.findings.finding import Finding
from gpudiag.agent.window import Window
from gpudiag.probes import Event, Sample, kernel_lines

SETTLE_SECONDS = 0.5
"""How long a death waits for the parent's or the kernel's word about it."""

PATIENCE_SECONDS = 5.0
"""A process that still lives so long after its connection ended has only let go of it."""

KILL_SECONDS = 60.0


@dataclass(slots=True)
class _Open:
    """A connection that ended without a goodbye; `gone` once its process is seen to be."""

    rank: Rank
    since: float
    gone: float | None = None


class Endings:
    """Collects what is known of each end until it can be told. `observe` may come from any thread.

    As an observer of all batches it sees the kernel's kills pass by.
    """

    def __init__(self, proc: Path = Path("/proc")) -> None:
        self._proc = proc
        self._killed: deque[tuple[float, int]] = deque(maxlen=64)
        self._exits: deque[Exit] = deque(maxlen=64)
        self._open: list[_Open] = []

    def observe(self, _samples: Sequence[Sample], events: Sequence[Event]) -> None:
        """Take note of the kernel's OOM kills."""
        for event in events:
            fact = kernel_lines.parse(event.line) if event.source == "kmsg" else None
            if fact is not None and fact.kind == "oom_kill" and fact.pid is not None:
                self._killed.append((event.time, fact.pid))

    def on_findings(self, now: float, changed: Sequence[Finding], window: Window) -> None:
        """Findings say nothing of how processes end."""

    def lost(self, rank: Rank, now: float) -> None:
        """Its connection ended without a goodbye."""
        self._open.append(_Open(rank, now))

    def back(self, pid: int) -> bool:
        """The process has connected again: nothing has ended. False where nothing was lost."""
        kept = [one for one in self._open if one.rank.pid != pid]
        found = len(kept) != len(self._open)
        self._open = kept
        return found

    def told(self, packet: Exit, now: float) -> list[Event]:
        """A parent says how its child ended; told at once unless it is one of the lost."""
        if any(packet.pid in (one.rank.pid, one.rank.hello.pid) for one in self._open):
            self._exits.append(packet)
            return []
        return [_by_parent(packet, now)]

    def settle(self, now: float) -> list[Event]:
        """The ends that can be told by now."""
        events = []
        for one in list(self._open):
            if one.gone is None and self._is_gone(one.rank):
                one.gone = now
            reported = self._reported(one.rank)
            if reported is not None or (one.gone is not None and now - one.gone >= SETTLE_SECONDS):
                self._open.remove(one)
                events.append(self._end(one, reported))
            elif one.gone is None and now - one.since >= PATIENCE_SECONDS:
                self._open.remove(one)
                events.append(_detached(one.rank, now))
        return events

    def _is_gone(self, rank: Rank) -> bool:
        # One of a foreign pid namespace cannot be looked at: its silence must do.
        started = rank.place.started
        return started is None or ended(rank.pid, started, self._proc)

    def _reported(self, rank: Rank) -> Exit | None:
        return next((e for e in self._exits if e.pid in (rank.pid, rank.hello.pid)), None)

    def _end(self, one: _Open, reported: Exit | None) -> Event:
        rank = one.rank
        reason, code = "", reported.code if reported else None
        if reported:
            self._exits.remove(reported)
            reason = "signal" if reported.code < 0 else "exit"
        if self._oom_killed(one):
            reason, code = "oom-kill", code if code is not None else -signal.SIGKILL
        return _exit_event(one.since, rank, code, reason or "lost")

    def _oom_killed(self, one: _Open) -> bool:
        pids = {one.rank.pid, one.rank.hello.pid}
        if any(pid in pids and abs(one.since - at) <= KILL_SECONDS for at, pid in self._killed):
            return True
        before, after = one.rank.place.oom_kills, oom_kills(one.rank.place.oom_counter)
        return before is not None and after is not None and after > before


def goodbye(rank: Rank, packet: Bye, now: float) -> Event:
    """The process took its leave; the exit code is not known from inside."""
    words = f"exit pid={rank.pid} rank={rank.rank} reason={packet.reason}"
    line = f"{words} {packet.line}" if packet.line else words
    return Event(now, "torch", line_of(line), "exit", _fields(rank, packet.reason))


def _exit_event(time: float, rank: Rank, code: int | None, reason: str) -> Event:
    fields = _fields(rank, reason)
    words = [f"exit pid={rank.pid} rank={rank.rank}"]
    if code is not None:
        words.append(_code(code))
        fields["code"] = str(code)
    if reason in ("oom-kill", "lost"):
        words.append(f"reason={reason}")
    return Event(time, "process", " ".join(words), "exit", fields)


def _by_parent(packet: Exit, now: float) -> Event:
    name = "_".join(packet.name[:64].split())
    words = [f"exit pid={packet.pid}", *([f"name={name}"] if name else []), _code(packet.code)]
    fields = {"pid": str(packet.pid), "job": packet.job, "code": str(packet.code)}
    return Event(now, "process", " ".join(words), "exit", fields)


def _detached(rank: Rank, now: float) -> Event:
    line = f"rank {rank.rank} (pid {rank.pid}) closed the channel; the process lives"
    return Event(now, "torch", line, "detached", _fields(rank, "detached"))


def _fields(rank: Rank, reason: str) -> dict[str, str]:
    who = {**dict(rank.who), "pid": str(rank.pid), "reason": reason}
    return {**who, **dict(rank.place.labels), **rank.last_words()}


def _code(code: int) -> str:
    if code >= 0:
        return f"code={code}"
    try:
        return f"code={code} signal={signal.Signals(-code).name}"
    except ValueError:
        return f"code={code} signal={-code}"
