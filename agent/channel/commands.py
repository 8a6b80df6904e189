"""Commands to training processes: who must take them, at which step, and what they answered."""

from __future__ import annotations

import json
import math
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol
from uuid import uuid4

from gpudiag.agent.channel.packets import Reply
from gpudiag.agent.channel.rank import Rank
from gpudiag.probes.errors import GpudiagError, UsageError

AT_ONCE = frozenset({"ping", "dump_stacks"})
"""Answered by the hook's own thread, even where the training is blocked."""

EACH = frozenset({"snapshot", "record_steps", "census", "gc", "empty_cache", "set_memory_fraction"})
"""Taken at a step boundary; ranks on other nodes need not take it with them."""

TOGETHER = frozenset({"micro_batch", "checkpoint", "checkpoint_and_exit"})
"""Break the job unless every rank takes it at the same step."""

MARGINS = (3.0, 3.0, 6.0)
"""Seconds that the step lies ahead: steps are known up to a second late, and the command needs its
way to the hook. One for each time that ranks are asked: those that it reached too late have said
where they are, and are asked again."""

LEAST_STEPS = 2
TIMEOUT = 60.0


class Refused(GpudiagError):
    """The command was not sent to anybody."""


@dataclass(frozen=True, slots=True)
class Result:
    """What one rank answered; `ok` False with the reason in `detail` where it did not."""

    rank: int
    ok: bool
    detail: str
    fields: Mapping[str, Any] = field(default_factory=dict)

    @property
    def late(self) -> int | None:
        """The step it had ended when the command came too late; None where it did not."""
        ended = self.fields.get("ended_step")
        return ended if not self.ok and isinstance(ended, int) else None


class Channel(Protocol):
    """The way down to the training processes of this node."""

    def command(
        self,
        job: str,
        name: str,
        args: Mapping[str, Any],
        *,
        timeout: float = TIMEOUT,
        rank: int | None = None,
    ) -> list[Result]:
        """Have every rank of the job on this node, or one, take the command; one result each.

        Blocks up to `timeout` seconds; raises `Refused` where it must not be sent.
        """


def refusal(job: str, name: str, ranks: Sequence[Rank]) -> str:
    """Why the command must not be sent to these ranks of a job; "" where it may."""
    if name not in AT_ONCE | EACH | TOGETHER:
        known = ", ".join(sorted(AT_ONCE | EACH | TOGETHER))
        raise UsageError(f"no such command: {name!r}; there are {known}")
    if not ranks:
        return f"no rank of the job {job!r} is connected on this node"
    if name in AT_ONCE:
        return ""
    silent = sorted(rank.rank for rank in ranks if rank.step is None)
    if silent:
        return f"ranks {silent} of {job!r} have finished no step yet"
    return _not_together(job, name, ranks) if name in TOGETHER else ""


def _not_together(job: str, name: str, ranks: Sequence[Rank]) -> str:
    size = max(rank.hello.world_size or 0 for rank in ranks)
    if size == 0:
        return f"how many ranks {job!r} has is not known: {name} needs all at the same step"
    if size > len(ranks):
        return (
            f"{len(ranks)} of the {size} ranks of {job!r} are on this node: {name} at the same"
            " step on all needs a shared lease, and there is none"
        )
    # A step of milliseconds would be past before the command is there.
    if not any(rank.step_seconds for rank in ranks):
        return f"how long a step of {job!r} takes is not known yet: ask again in some seconds"
    return ""


def step_for(
    ranks: Sequence[Rank], ahead: float = MARGINS[0], ended: Iterable[int] = ()
) -> int | None:
    """A step that no rank has reached and all can take: the furthest one's, and `ahead` seconds.

    `ended` are steps that ranks have said of themselves since. None, each rank's next one, while
    nobody knows how long a step takes.
    """
    furthest = max([*(rank.step or 0.0 for rank in ranks), *ended])
    paces = [rank.step_seconds for rank in ranks if rank.step_seconds]
    if not paces:
        return None
    return int(furthest) + max(math.ceil(ahead / min(paces)), LEAST_STEPS)


def to_ask_again(name: str, said: Mapping[Rank, Result]) -> list[Rank]:
    """The ranks that the command reached too late, where another step may still be named.

    What needs all ranks at the same step is lost once one of them has taken it.
    """
    late = [rank for rank, result in said.items() if result.late is not None]
    return [] if name in TOGETHER and len(late) < len(said) else late


class Commands:
    """The commands under way. `run` is for other threads, the rest for the channel's own."""

    def __init__(
        self,
        ranks: Callable[[str], list[Rank]],
        send: Callable[[dict[int, bytes]], None],
    ) -> None:
        """`ranks` are those connected of a job; `send` hands packets by pid to the channel."""
        self._ranks = ranks
        self._send = send
        self._changed = threading.Condition()
        self._waiting: dict[str, Rank] = {}
        self._replies: dict[str, Result] = {}

    def run(
        self, job: str, name: str, args: Mapping[str, Any], timeout: float, rank: int | None = None
    ) -> list[Result]:
        """See `Channel.command`."""
        if rank is not None and name in TOGETHER:
            raise Refused(f"{name} was refused: one rank alone would break the job")
        ranks = [one for one in self._ranks(job) if rank in (None, one.rank)]
        if why := refusal(job, name, ranks):
            raise Refused(f"{name} was refused: {why}")
        until = time.monotonic() + timeout
        said: dict[Rank, Result] = {}
        for ahead in MARGINS:
            ended = [result.late for result in said.values() if result.late is not None]
            # One rank alone takes it at its next boundary: there is nobody to be in step with.
            alone = name in AT_ONCE or rank is not None
            step = None if alone else step_for(ranks, ahead, ended)
            answers = self._ask(ranks, name, args, step, until)
            said |= answers
            ranks = to_ask_again(name, answers)
            if not ranks or time.monotonic() >= until:
                break
        return sorted(said.values(), key=lambda result: result.rank)

    def _ask(
        self,
        ranks: Sequence[Rank],
        name: str,
        args: Mapping[str, Any],
        step: int | None,
        until: float,
    ) -> dict[Rank, Result]:
        asked = {uuid4().hex: rank for rank in ranks}
        with self._changed:
            self._waiting.update(asked)
        self._send({r.pid: _packet(number, name, args, step) for number, r in asked.items()})
        return self._wait(asked, until)

    def reply(self, rank: Rank, packet: Reply) -> bool:
        """Take a rank's answer; False where nobody waits for it."""
        with self._changed:
            if self._waiting.get(packet.id) is not rank:
                return False
            answer = Result(rank.rank, packet.ok, packet.detail, packet.fields)
            self._replies[packet.id] = answer
            self._changed.notify_all()
        return True

    def gone(self, rank: Rank) -> None:
        """The process has ended: what it was asked will not be answered."""
        with self._changed:
            for number, asked in self._waiting.items():
                if asked is rank and number not in self._replies:
                    self._replies[number] = Result(rank.rank, False, "the process has ended")
            self._changed.notify_all()

    def _wait(self, asked: Mapping[str, Rank], until: float) -> dict[Rank, Result]:
        with self._changed:
            while asked.keys() - self._replies.keys() and time.monotonic() < until:
                self._changed.wait(max(0.0, until - time.monotonic()))
            results = {}
            for number, rank in asked.items():
                del self._waiting[number]
                silent = Result(rank.rank, False, "no answer in time")
                results[rank] = self._replies.pop(number, silent)
        return results


def _packet(number: str, name: str, args: Mapping[str, Any], step: int | None) -> bytes:
    packet = {"kind": "command", "id": number, "name": name, "args": args, "at_step": step}
    return json.dumps(packet).encode()
