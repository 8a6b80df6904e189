"""What inference servers tell of themselves: their metric pages and their health."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

from gpudiag.probes import MAX_LINE, Event, Record
from gpudiag.probes.errors import Partly, Unavailable
from gpudiag.probes.serving.copies import Copies
from gpudiag.probes.serving.scrape import Looked, Server, look

DISCOVER_SECONDS = 60.0
FORGET_SECONDS = 900.0
"""A server that was found and is gone is down for so long, rather than never to have been."""

MOST_AT_ONCE = 32
"""More than a node serves: servers that do not answer must not make the others wait in line."""

METRICS = frozenset(
    {
        "gpudiag_serving_up",
        "gpudiag_serving_ready",
        "gpudiag_serving_engine_up",
        "gpudiag_serving_model_loaded",
    }
)
"""Its own; all else passes under the servers' names and is translated where samples come in."""


class Servers:
    """Looks at all servers at once; one that does not answer costs the others nothing."""

    name = "serving"
    metrics = METRICS

    def __init__(
        self,
        servers: Sequence[Server],
        discover: Callable[[], Iterable[Server]] | None = None,
        *,
        now: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.cadence = 5.0
        self._servers = servers
        self._discover = discover
        self._found: dict[str, tuple[Server, float]] = {}
        self._looked_at = -DISCOVER_SECONDS
        self._now = now
        self._monotonic = monotonic
        self._copies = Copies(monotonic)
        self._states: dict[str, tuple[bool | None, ...]] = {}
        self._threads: ThreadPoolExecutor | None = None

    def read(self) -> Iterator[Record]:
        """Every server's samples. Raises `Unavailable` where there is none to look at, and
        `Partly`, after all samples, where one gave no page.
        """
        servers = [*self._servers, *self._discovered()]
        if not servers:
            raise Unavailable("no server is named in probes.serving.servers")
        if self._threads is None:
            self._threads = ThreadPoolExecutor(MOST_AT_ONCE, thread_name_prefix="serving")
        looks = list(self._threads.map(self._look, servers))
        for server, looked in zip(servers, looks, strict=True):
            yield from looked.samples
            yield from self._turn(server, looked)
        troubles = [looked.trouble for looked in looks if looked.trouble]
        if troubles:
            raise Partly("; ".join(troubles)[:500])

    def close(self) -> None:
        """Let the threads end."""
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)

    def _look(self, server: Server) -> Looked:
        return look(server, self._now(), self._copies)

    def _turn(self, server: Server, looked: Looked) -> Iterator[Event]:
        """An event when a server turns; one that is well from the beginning is none."""
        before = self._states.get(server.name)
        self._states[server.name] = looked.state
        if before == looked.state or (before is None and False not in looked.state):
            return
        line = looked.words[:MAX_LINE]
        yield Event(self._now(), "serving", line, "health", {"server": server.name})

    def _discovered(self) -> list[Server]:
        if self._discover is None:
            return []
        now = self._monotonic()
        if now - self._looked_at >= DISCOVER_SECONDS:
            self._looked_at = now
            known = {server.url for server in self._servers}
            found = {s.url: (s, now) for s in self._discover() if s.url not in known}
            kept = {u: one for u, one in self._found.items() if now - one[1] < FORGET_SECONDS}
            self._found = kept | found
        return [server for server, _ in self._found.values()]
