"""What the helper thread does once a second, whatever the training thread is at."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from gpudiag.probes.torch import wire
from gpudiag.probes.torch.arrivals import Arrivals
from gpudiag.probes.torch.channel import Channel
from gpudiag.probes.torch.guard import FAILURES
from gpudiag.probes.torch.meter import Value
from gpudiag.probes.torch.watch import Watch

if TYPE_CHECKING:
    from gpudiag.probes.torch.session import Session


class Tick:
    """`run` is for the helper thread; it sends what stays true while no step ends."""

    def __init__(self, session: Session, channel: Channel) -> None:
        self._session = session
        self._channel = channel
        self._arrivals = Arrivals(session.features)
        self._watch = Watch()

    def run(self) -> None:
        """One turn."""
        dropped = float(self._channel.dropped)
        values: list[Value] = [("gpudiag_hook_records_dropped_total", {}, dropped)]
        count = self._session.steps.count
        if count:
            values.append(("gpudiag_train_steps_total", {}, float(count)))
            values += self._arrivals.sequences()
            self._tell_arrivals()
            self._tell_stall(count)
        self._channel.send(wire.metrics(time.time(), values))
        while FAILURES.untold:
            self._session.event("hook_failed", FAILURES.untold.popleft())

    def _tell_arrivals(self) -> None:
        found = self._arrivals.entries(time.time(), rare=bool(self._session.ddp))
        for group, entries in found.items():
            packet = {"kind": "arrivals", "time": time.time(), "group": group, "entries": entries}
            self._channel.send(packet)

    def _tell_stall(self, count: int) -> None:
        quiet = self._watch.look(count, time.monotonic())
        if quiet is not None:
            line = f"no step ended for {quiet:.0f} s after step {count}"
            self._session.event("step_timeout", line)
