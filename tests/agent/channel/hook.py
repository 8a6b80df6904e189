"""A training process's end of the channel, as far as the tests need one."""

from __future__ import annotations

import json
import socket
import time
from collections import deque
from pathlib import Path
from typing import Any

from gpudiag.agent.channel.packets import Hello
from tests.running import PATIENCE


def hello(rank: int = 0, pid: int = 4242, **more: Any) -> Hello:
    return Hello(pid=pid, job="llama", rank=rank, **more)


class Hook:
    """Connects and says hello; `with` hangs up without a goodbye."""

    def __init__(self, path: Path, rank: int = 0, job: str = "llama", **more: Any) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.settimeout(PATIENCE)
        self.socket.connect(str(path))
        self.send(kind="hello", version=1, pid=1, job=job, rank=rank, **more)

    def __enter__(self) -> Hook:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, **packet: Any) -> None:
        self.socket.send(json.dumps(packet).encode())

    def metrics(self, **values: float) -> None:
        """Readings by the metric's name without its prefix."""
        rows = [[f"gpudiag_train_{name}", {}, value] for name, value in values.items()]
        self.send(kind="metrics", time=time.time(), values=rows)

    def command(self) -> dict[str, Any]:
        """The next command."""
        found: dict[str, Any] = json.loads(self.socket.recv(65536))
        return found


class Taken:
    """What the channel has handed on."""

    def __init__(self) -> None:
        self.samples: deque[Any] = deque()
        self.events: deque[Any] = deque()

    def put(self, samples: list[Any], events: list[Any]) -> None:
        self.samples.extend(samples)
        self.events.extend(events)

    def values(self, metric: str) -> list[float]:
        return [s.value for s in list(self.samples) if s.metric == metric]

    def labels(self, metric: str) -> list[dict[str, str]]:
        return [dict(s.labels) for s in list(self.samples) if s.metric == metric]

    def lines(self, kind: str) -> list[str]:
        return [e.line for e in list(self.events) if e.type == kind]
