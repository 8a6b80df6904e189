"""What the helper thread does once a second, whatever the training thread is at."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from gpudiag.probes.torch import wire
from gpudiag.probes.torch.channel import Channel
from gpudiag.probes.torch.guard import FAILURES
from gpudiag.probes.torch.meter import Value

if TYPE_CHECKING:
    from gpudiag.probes.torch.session import Session


class Tick:
    """`run` is for the helper thread; it sends what stays true while no step ends."""

    def __init__(self, session: Session, channel: Channel) -> None:
        self._session = session
        self._channel = channel

    def run(self) -> None:
        """One turn."""
        dropped = float(self._channel.dropped)
        values: list[Value] = [("gpudiag_hook_records_dropped_total", {}, dropped)]
        count = self._session.steps.count
        if count:
            values.append(("gpudiag_train_steps_total", {}, float(count)))
        self._channel.send(wire.metrics(time.time(), values))
        while FAILURES.untold:
            self._session.event("hook_failed", FAILURES.untold.popleft())
