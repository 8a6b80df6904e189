"""The trace: what `torch.cuda.memory._record_memory_history` keeps, in a ring per device."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any, Literal

from tests.allocsim.blocks import PoolId
from tests.allocsim.stacks import Stack

Context = Literal["none", "state", "alloc", "all"]
Entry = dict[str, Any]
START_US = 1_764_000_000_000_000


@dataclass
class Clock:
    """Microseconds since 1970; every event of the allocator takes three."""

    us: int = START_US

    def tick(self, us: int = 3) -> int:
        self.us += us
        return self.us


@dataclass
class Recorder:
    """Records while `on`; `context` says for which events stacks are kept."""

    clock: Clock
    on: bool = True
    context: Context = "all"
    max_entries: int | None = None
    entries: deque[Entry] = field(default_factory=deque)
    annotations: deque[Entry] = field(default_factory=deque)

    def __post_init__(self) -> None:
        most = 1 if self.context == "state" else self.max_entries
        self.entries = deque(maxlen=most)
        self.annotations = deque(maxlen=most)

    def kept(self, stack: Stack) -> Stack:
        """What a block remembers of the stack that made it."""
        return stack if self.on and self.context != "none" else ()

    def event(
        self,
        action: str,
        where: int,
        size: int,
        stream: int,
        stack: Stack,
        pool: PoolId,
    ) -> None:
        if not self.on:
            return
        place = "device_free" if action == "oom" else "addr"
        entry: Entry = {"action": action, place: where, "size": size, "stream": stream}
        entry["time_us"] = self.clock.tick()
        if self.context in ("alloc", "all") and action != "snapshot":
            # Each entry has a list of its own; the frames in it are shared.
            entry["frames"] = list(stack)
        entry |= {"compile_context": "N/A", "user_metadata": "", "pool_id": pool}
        self.entries.append(entry)

    def annotate(self, name: str, stage: Literal["START", "END"], device: int = 0) -> None:
        """A `record_function` scope of the user or an optimizer begins or ends."""
        if self.on:
            time = self.clock.tick()
            self.annotations.append(
                {"name": name, "stage": stage, "device": device, "time_us": time}
            )
