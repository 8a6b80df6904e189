"""The one thread of the hooks: it speaks to the agent, also while the main thread is blocked."""

from __future__ import annotations

import os
import select
import threading
import time
from collections.abc import Callable
from typing import Any

from gpudiag.probes.torch.channel import Channel
from gpudiag.probes.torch.guard import guarded

TICK = 1.0
GOODBYE = 1.0


class Helper:
    """Calls `tick()` about once a second and `command(packet)` for each that comes."""

    def __init__(
        self,
        channel: Channel,
        tick: Callable[[], object],
        command: Callable[[dict[str, Any]], object],
    ) -> None:
        self._channel = channel
        self._tick = guarded(tick)
        self._command = guarded(command)
        self._stopping = False
        self._leaving, self._left = threading.Lock(), 0
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._thread = threading.Thread(target=self._run, name="gpudiag", daemon=True)

    def start(self) -> None:
        """Begin; the thread is a daemon, it never keeps the process alive."""
        self._thread.start()

    def wake(self) -> None:
        """Have the queue written now rather than at the next tick."""
        os.eventfd_write(self._wake, 1)

    def stop(self) -> None:
        """Write what is left and end, within a second whatever the agent does."""
        self._stopping = True
        self.wake()
        self._thread.join(GOODBYE)
        self._leave()

    def close(self) -> None:
        """Give the descriptors back; in a forked child the thread is not there, they are."""
        self._channel.close()
        os.close(self._wake)

    def _run(self) -> None:
        due = time.monotonic()
        turn = guarded(self._turn)
        while not self._stopping:
            if time.monotonic() >= due:
                self._tick()
                # At whole seconds of the clock that all ranks of a node share.
                due = time.monotonic() + TICK - time.time() % TICK
            if not turn(due - time.monotonic()):
                # Whatever failed would fail again at once: no busy loop in a guest's thread.
                time.sleep(TICK)
        guarded(self._channel.flush)()
        guarded(self._leave)()

    def _leave(self) -> None:
        """Who leaves last of the thread and of the one that stops it closes."""
        with self._leaving:
            self._left += 1
            last = self._left == 2
        if last:
            self.close()

    def _turn(self, timeout: float) -> bool:
        self._channel.flush()
        poll = select.poll()
        poll.register(self._wake, select.POLLIN)
        if (connection := self._channel.fileno()) is not None:
            poll.register(connection, select.POLLIN)
        ready = {fd for fd, _ in poll.poll(max(0.0, timeout) * 1000)}
        if self._wake in ready:
            os.eventfd_read(self._wake)
        if connection in ready:
            for packet in self._channel.receive():
                self._command(packet)
        return True
