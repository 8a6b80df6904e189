"""Servers of this pod that nobody named: its listening ports that answer with a known page."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

from gpudiag.probes.serving.canary_fetch import Exchange, Unanswered
from gpudiag.probes.serving.engines import of_page
from gpudiag.probes.serving.pages import rows
from gpudiag.probes.serving.scrape import MAX_PAGE_BYTES, Server

LISTENING = "0A"
MOST_PORTS = 64
SECONDS = 1.0


def ports(proc: Path = Path("/proc")) -> list[int]:
    """TCP ports on which something of this network namespace listens, lowest first."""
    found = set()
    for name in ("net/tcp", "net/tcp6"):
        try:
            lines = (proc / name).read_text().splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            parts = line.split()
            if len(parts) > 3 and parts[3] == LISTENING:
                found.add(int(parts[1].rpartition(":")[2], 16))
    return sorted(found)[:MOST_PORTS]


def discover(
    proc: Path = Path("/proc"), exchange: Callable[..., Exchange] = Exchange
) -> Iterator[Server]:
    """Servers on this host's loopback, named by kind and port, as `vllm-8000`."""
    for port in ports(proc):
        url = f"http://127.0.0.1:{port}"
        asking = exchange(url, time.monotonic() + SECONDS, limit=MAX_PAGE_BYTES)
        try:
            text = b"".join(asking.ask("GET", "/metrics", {"Accept": "text/plain"}))
        except Unanswered:
            continue
        finally:
            asking.close()
        engine = of_page(row[0] for row in rows(text.decode("utf-8", "replace")))
        if engine is not None:
            yield Server(f"{engine.name}-{port}", url, engine.name)
