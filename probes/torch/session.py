"""Everything of one attached process: the measures, the step boundary, the helper thread."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from gpudiag.probes.torch import wire
from gpudiag.probes.torch.captures import Captures
from gpudiag.probes.torch.channel import Channel
from gpudiag.probes.torch.checkpoints import Checkpoints
from gpudiag.probes.torch.combine import combined, of_gpu
from gpudiag.probes.torch.comm import CommWait
from gpudiag.probes.torch.commands import Commands
from gpudiag.probes.torch.cuda_times import CudaTimes
from gpudiag.probes.torch.ddp import DdpWait
from gpudiag.probes.torch.features import Features
from gpudiag.probes.torch.gc_pauses import GcPauses
from gpudiag.probes.torch.guard import guarded
from gpudiag.probes.torch.helper import Helper
from gpudiag.probes.torch.identity import hello
from gpudiag.probes.torch.kernels import Kernels
from gpudiag.probes.torch.loader import Loader
from gpudiag.probes.torch.memory import Memory
from gpudiag.probes.torch.meter import Meter, Value
from gpudiag.probes.torch.model import Model
from gpudiag.probes.torch.oom import OomObserver
from gpudiag.probes.torch.optimizers import Optimizers
from gpudiag.probes.torch.options import Options
from gpudiag.probes.torch.phases import Phases
from gpudiag.probes.torch.requests import Requests
from gpudiag.probes.torch.scalars import Scalars
from gpudiag.probes.torch.steps import Steps
from gpudiag.probes.torch.tick import Tick
from gpudiag.probes.torch.waits import Waits

PACKET_NS = 1_000_000_000
PEEK_NS = 50_000_000


class Session:
    """Owns the measures and the channel.

    `boundary` runs in the training thread at the end of a step. The helper thread starts at the
    first of them (or by `begin`), so a process that never trains, such as a loader's worker,
    never speaks to the agent; in a forked child that trains it starts again.
    """

    def __init__(self, torch: Any, options: Options) -> None:
        self.torch = torch
        self.options = options
        self.features = Features(torch)
        self.steps = Steps(guarded(self.boundary))
        self.optimizers = Optimizers(self.steps.mark)
        self.loader = Loader(self.features)
        self.checkpoints = Checkpoints(self.event, lambda: self.steps.count)
        self.phases = Phases({"data": self.loader.waited, "checkpoint": self.checkpoints.spent})
        self.gc = GcPauses()
        self.scalars = Scalars()
        self.cuda = CudaTimes(torch, self.features)
        self.waits = Waits(torch, self.features, self.cuda)
        self.ddp = DdpWait(self.features)
        self.comm = CommWait(self.features, self.ddp, self.waits)
        self.model = Model(torch, self.optimizers)
        self.memory = Memory(torch, self.features)
        self.captures = Captures(
            self.features,
            options.snapshots(),
            lambda: self.steps.count,
            torch.cuda.is_initialized,
        )
        self.oom = OomObserver(self.features, self.captures, self.model.totals, self.event)
        self.kernels = Kernels(torch, self.features, options.kernel_interval, self.event)
        self.requests = Requests(self)
        self.commands = Commands(
            self.requests.at_once(), self.requests.at_boundary(), self.send, self._hurry
        )
        self._meters: list[Meter] = [
            self.loader, self.phases, self.gc, self.checkpoints, self.scalars,
            self.memory, self.model, self.kernels,
        ]  # fmt: skip
        self.exiting = False
        self._looked = False
        self.on_begin: Callable[[], object] = lambda: None
        self._packet_at = 0
        self._hello: dict[str, Any] = {}
        self._helper: Helper | None = None
        self._channel = self._connection()

    def begin(self) -> None:
        """Start to speak to the agent; nothing where it began already."""
        if self._helper is None:
            self.on_begin()
            self._hello = self._greeting()
            tick = Tick(self, self._channel)
            self._helper = Helper(self._channel, tick.run, self.commands.came)
            self._helper.start()

    def boundary(self, now: int) -> None:
        """A step ended at `now` (nanoseconds) and something is due."""
        # Before the commands are looked at: one that comes meanwhile sets it to 0 again.
        self.steps.due = now + (PEEK_NS if self.ddp else PACKET_NS)
        self.begin()
        if not self._looked:
            self._look()
        self.waits.thread = threading.get_ident()
        gpu, looks = self.cuda.active(), False
        if gpu:
            self.cuda.ended(spoiled=self.checkpoints.spent_ns > 0)
        if self.ddp:
            self.ddp.peek()
        if self.kernels.boundary():
            self._hurry()
        if self.captures.recording():
            self._recorded()
        if now >= self._packet_at:
            self._packet_at = now + PACKET_NS
            self._packet()
            looks = gpu
        self.commands.run(self.steps.count)
        if self.exiting:
            self.requests.leave()
        if looks:
            self.cuda.begin(self.steps.count)
            self._hurry()

    def send(self, packet: dict[str, Any]) -> None:
        """Queue a packet and have it written soon, from any thread."""
        self._channel.send(packet)
        if self._helper is not None:
            self._helper.wake()

    def event(self, type_: str, line: str = "", **fields: Any) -> None:
        """Tell the agent that something happened now, at this step."""
        self.send(wire.event(time.time(), type_, line, step=self.steps.count, **fields))

    def close(self, reason: str, line: str = "") -> None:
        """Say goodbye and end the helper thread; waits a second at most."""
        guarded(self.kernels.close)()
        helper, self._helper = self._helper, None
        if helper is not None:
            guarded(self._packet)()
            self._channel.send({"kind": "bye", "reason": reason, "line": line[: wire.LINE]})
            helper.stop()

    def forked(self) -> None:
        """In a forked child: the connection and the thread stay the parent's."""
        helper, self._helper = self._helper, None
        if helper is not None:
            helper.close()
        self._channel = self._connection()
        self.steps.due = 0

    def _look(self) -> None:
        """At the second step all optimizers and modules that train are there to be seen."""
        if self.steps.count < 2:
            self._hurry()
            return
        self._looked = True
        self.model.look()
        for module in self.model.distributed():
            self.ddp.add(module)

    def _recorded(self) -> None:
        self._hurry()
        path = self.captures.finished()
        if path is not None:
            self.event("snapshot", str(path), recorded="steps")

    def _packet(self) -> None:
        self._greet_again()
        if self.torch.cuda.is_initialized():
            self.oom.attach()
        steps = self.steps.done()
        gpu = self.cuda.take() if self.cuda.active() else None
        checkpoint, backwards = self.checkpoints.spent_ns, self.scalars.backwards
        values = self.steps.take(steps)
        if gpu is not None:
            values = of_gpu(values, gpu)
        alone = self._hello.get("world_size") == 1
        for meter in self._meters:
            values += taken(meter.take, steps)
        source = self.comm.source
        values += taken(lambda n: self.comm.take(n, alone, gpu), steps)
        if source != self.comm.source:
            self._greet_again()
        # Before the first timed step there is no time that the waits would be a part of.
        if steps > 0:
            values += combined(values, steps, checkpoint, backwards, alone, gpu)
            if self.options.sequence_length:
                limit = float(self.options.sequence_length)
                values.append(("gpudiag_train_sequence_length_limit", {}, limit))
            self.send(wire.metrics(time.time(), values))

    def _greeting(self) -> dict[str, Any]:
        options = self.options
        config = {**self.model.config, **options.config}
        degrees = self.model.degrees
        said = {**self.features.said(), "comm_wait": self.comm.source}
        return hello(self.torch, options.job, options.layout, degrees, config, said)

    def _greet_again(self) -> None:
        """What hello says is known bit by bit: process group, GPU, model, a feature that fails."""
        greeting = self._greeting()
        if greeting != self._hello:
            self._hello = greeting
            self.send(greeting)

    def _connection(self) -> Channel:
        return Channel(self.options.socket, lambda: self._hello)

    def _hurry(self) -> None:
        self.steps.due = 0


def taken(take: Callable[[int], list[Value]], steps: int) -> list[Value]:
    """What a meter gives, nothing where it fails."""
    return guarded(take)(steps) or []
