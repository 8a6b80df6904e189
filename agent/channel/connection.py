"""One connection of the channel: packets in within an allowance, packets out as there is room."""

from __future__ import annotations

import contextlib
import socket
from collections import Counter, deque
from collections.abc import Iterator

from gpudiag.agent.channel.listening import Peer
from gpudiag.agent.channel.packets import MAX_PACKET
from gpudiag.agent.channel.rank import Rank

ALLOWANCE = 100
"""Packets read of one process in a second; a hook sends two or three. What is more waits in the
socket until the hook drops it, and counts it, at its end."""

MAX_OUT = 64


class Closed(Exception):
    """The other end has gone."""


class Connection:
    """A process at the other end; `rank` is who it is, once it has said so.

    What goes "up" from it and "down" to it is counted in `traffic`, in bytes.
    """

    def __init__(self, connection: socket.socket, peer: Peer, traffic: Counter[str]) -> None:
        connection.setblocking(False)
        self._traffic = traffic
        self.socket = connection
        self.peer = peer
        self.rank: Rank | None = None
        self.left = ALLOWANCE
        self._out: deque[bytes] = deque(maxlen=MAX_OUT)

    @property
    def wants_to_send(self) -> bool:
        """Whether packets wait for room in the socket."""
        return bool(self._out)

    def packets(self) -> Iterator[bytes]:
        """What has come, within the allowance; raises `Closed` at the end."""
        while self.left > 0:
            try:
                data = self.socket.recv(MAX_PACKET + 1)
            except BlockingIOError:
                return
            except OSError as error:
                raise Closed from error
            if not data:
                raise Closed
            self.left -= 1
            self._traffic["up"] += len(data)
            yield data

    def send(self, data: bytes) -> None:
        """Queue a packet and send what there is room for."""
        self._out.append(data)
        self.flush()

    def flush(self) -> None:
        """Send what waits; a closed end shows itself when it is read from."""
        try:
            while self._out:
                self._traffic["down"] += self.socket.send(self._out[0])
                self._out.popleft()
        except BlockingIOError:
            pass
        except OSError:
            self._out.clear()

    def close(self) -> None:
        """Hang up."""
        with contextlib.suppress(OSError):
            self.socket.close()
