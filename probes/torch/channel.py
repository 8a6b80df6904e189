"""The socket to the agent: never waits, drops what does not fit, reconnects quietly."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from gpudiag.probes.torch import wire

QUEUE = 256
FIRST_WAIT, LONGEST_WAIT = 1.0, 30.0

OPENING = threading.Lock()
"""Held while a socket is opened, and by whoever forks: else a child could have a copy of one that
it does not know of, and the agent would see no end of this process."""


def default_path() -> Path:
    """`GPUDIAG_SOCKET`, else `/run/gpudiag/agent.sock` where it is, else the user's own."""
    told = os.environ.get("GPUDIAG_SOCKET")
    shared = Path("/run/gpudiag/agent.sock")
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if told:
        return Path(told)
    if os.geteuid() == 0 or not runtime or shared.exists():
        return shared
    return Path(runtime) / "gpudiag" / "agent.sock"


class Channel:
    """One connection to the agent at `path`. `send` may be called from any thread, the rest is
    for the one thread that owns the channel. `hello` is what goes first on each connection.
    """

    def __init__(
        self,
        path: Path,
        hello: Callable[[], Mapping[str, Any]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.dropped = 0
        self.sent_bytes = 0
        self._path = path
        self._hello = hello
        self._clock = clock
        self._socket: socket.socket | None = None
        self._queue: deque[bytes] = deque()
        self._wait = FIRST_WAIT
        self._next_try = 0.0

    def send(self, packet: Mapping[str, Any]) -> None:
        """Queue a packet; when the queue is full the oldest goes, since the newest tells more."""
        data = wire.encode(packet)
        if data is None:
            self.dropped += 1
            return
        self._queue.append(data)
        if len(self._queue) > QUEUE:
            self._drop()

    def fileno(self) -> int | None:
        """The descriptor to wait on for commands; None while not connected."""
        return self._socket.fileno() if self._socket else None

    def flush(self) -> bool:
        """Connect if it is time, then write what the kernel takes; False where some is left."""
        if self._socket is None and not self._connect():
            return False
        while self._queue:
            data = self._queue.popleft()
            if not self._write(data):
                self._queue.appendleft(data)
                return False
        return True

    def receive(self) -> list[dict[str, Any]]:
        """The commands that came; what is not a JSON object is passed over."""
        packets: list[dict[str, Any]] = []
        while self._socket is not None:
            try:
                data = self._socket.recv(wire.LIMIT)
            except BlockingIOError:
                break
            except OSError:
                data = b""
            if not data:
                self._lose()
            elif (packet := wire.decode(data)) is not None:
                packets.append(packet)
        return packets

    def close(self) -> None:
        """Give the socket back. Also in a forked child: a copy held there would hide our end."""
        connection, self._socket = self._socket, None
        if connection is not None:
            connection.close()

    def _connect(self) -> bool:
        now = self._clock()
        if now < self._next_try:
            return False
        with OPENING:
            self._socket = self._opened()
        if self._socket is None:
            self._next_try = now + self._wait
            self._wait = min(self._wait * 2, LONGEST_WAIT)
            return False
        self._wait = FIRST_WAIT
        return self._greet()

    def _opened(self) -> socket.socket | None:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        connection.setblocking(False)
        try:
            connection.connect(os.fspath(self._path))
        except OSError:
            connection.close()
            return None
        return connection

    def _greet(self) -> bool:
        hello = wire.encode(self._hello())
        if hello is not None and self._write(hello):
            return True
        self._lose()
        return False

    def _write(self, data: bytes) -> bool:
        if self._socket is None:
            return False
        try:
            self.sent_bytes += self._socket.send(data)
        except BlockingIOError:
            return False
        except OSError:
            self._lose()
            return False
        return True

    def _lose(self) -> None:
        self.close()
        self._next_try = self._clock() + self._wait

    def _drop(self) -> None:
        try:
            self._queue.popleft()
        except IndexError:
            return
        self.dropped += 1
