"""The agent's end of the channel, for tests."""

from __future__ import annotations

import json
import socket
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

PATIENCE = 120.0


class Peer:
    """Listens at `path`; takes one connection at a time."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._listening = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._listening.bind(str(path))
        self._listening.listen(4)
        self._listening.settimeout(PATIENCE)
        self._connection: socket.socket | None = None
        self.seen: list[dict[str, Any]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.hang_up()
        self._listening.close()

    def read(self) -> dict[str, Any] | None:
        """The next packet, None at the end of the connection."""
        if self._connection is None:
            self._connection = self._listening.accept()[0]
            self._connection.settimeout(PATIENCE)
        data = self._connection.recv(65536)
        if not data:
            self.hang_up()
            return None
        packet: dict[str, Any] = json.loads(data)
        self.seen.append(packet)
        return packet

    def until(self, **wanted: Any) -> dict[str, Any]:
        """The next packet with these keys."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            packet = self.read()
            assert packet is not None, f"ended before {wanted}"
            if wanted.items() <= packet.items():
                return packet
        raise AssertionError(f"no {wanted}")

    def value(self, name: str, **labels: str) -> float:
        """The next value of a series."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            for metric, of, value in self.until(kind="metrics")["values"]:
                if metric == name and labels.items() <= of.items():
                    return float(value)
        raise AssertionError(f"no {name}")

    def command(self, name: str, at_step: int | None = None, **args: Any) -> None:
        """Send a command, its id is its name."""
        packet = {"kind": "command", "id": name, "name": name, "args": args, "at_step": at_step}
        assert self._connection is not None
        self._connection.send(json.dumps(packet).encode())

    def to_the_end(self) -> list[dict[str, Any]]:
        """Every packet of this connection, also those read before."""
        while self.read() is not None:
            pass
        return self.seen

    def hang_up(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
