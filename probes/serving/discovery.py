"""Servers of this pod that nobody named: its listening ports that answer with a known page."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from gpudiag.probes.serving.asking import Asking
from gpudiag.probes.serving.canary_fetch import Unanswered
from gpudiag.probes.serving.engines import Engine, of_page
from gpudiag.probes.serving.pages import rows
from gpudiag.probes.serving.scrape import Server, known_prefixes

LISTENING = "0A"
MOST_PORTS = 64
MOST_AT_ONCE = 16
SECONDS = 1.0
TRIES = 5
"""A listener that gave no page so often is none, and is left alone until another takes its port."""


class Listener(NamedTuple):
    """A port on which something listens; the socket's inode tells one listener from the next."""

    port: int
    inode: str


def listeners(proc: Path = Path("/proc")) -> list[Listener]:
    """Listening TCP ports of this network namespace, lowest first.

    Those of the range for clients' own ports are left out: there the ranks of jobs meet (NCCL,
    gloo, TCPStore), who take a question in HTTP for a broken peer.
    """
    first, last = _ephemeral(proc)
    found: dict[int, Listener] = {}
    for one in listening(proc):
        if not first <= one.port <= last:
            found.setdefault(one.port, one)
    return [found[port] for port in sorted(found)][:MOST_PORTS]


def listening(proc: Path = Path("/proc")) -> Iterator[Listener]:
    """Every listening TCP socket of this network namespace; its containers share it in a pod."""
    for name in ("net/tcp", "net/tcp6"):
        for line in _lines(proc / name)[1:]:
            parts = line.split()
            if len(parts) > 9 and parts[3] == LISTENING:
                yield Listener(int(parts[1].rpartition(":")[2], 16), parts[9])


class Discovery:
    """Finds servers on this host's loopback, named by kind and port, as `vllm-8000`."""

    def __init__(self, proc: Path = Path("/proc")) -> None:
        self._proc = proc
        self._asked: dict[Listener, int] = {}
        self._known: dict[Listener, Server] = {}

    def __call__(self) -> Iterator[Server]:
        """Those that listen now; asks only those of which it is not known what they are."""
        here = listeners(self._proc)
        self._asked = {one: self._asked.get(one, 0) for one in here}
        unknown = [x for x in here if x not in self._known and self._asked[x] < TRIES]
        with ThreadPoolExecutor(MOST_AT_ONCE, thread_name_prefix="discover") as threads:
            for one, engine in zip(unknown, threads.map(_kind, unknown), strict=True):
                self._asked[one] += 1
                if engine is not None:
                    url = f"http://127.0.0.1:{one.port}"
                    self._known[one] = Server(f"{engine.name}-{one.port}", url, engine.name)
        self._known = {one: server for one, server in self._known.items() if one in self._asked}
        yield from self._known.values()


def _kind(listener: Listener) -> Engine | None:
    url = f"http://127.0.0.1:{listener.port}"
    asking = Asking(url, deadline=time.monotonic() + SECONDS)
    try:
        text = asking.get("/metrics").decode("utf-8", "replace")
    except Unanswered:
        return None
    return of_page({row[0] for row in rows(text, known_prefixes())})


def _ephemeral(proc: Path) -> tuple[int, int]:
    lines = _lines(proc / "sys/net/ipv4/ip_local_port_range")
    first, last = lines[0].split() if lines else ("1", "0")
    return int(first), int(last)


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except OSError:
        return []
