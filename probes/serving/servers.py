"""What inference servers tell of themselves: their metric pages and their health."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

from gpudiag.probes import Sample
from gpudiag.probes.errors import GpudiagError, Unavailable
from gpudiag.probes.serving.canary_fetch import Exchange
from gpudiag.probes.serving.scrape import MAX_PAGE_BYTES, Looked, Server, look

DISCOVER_SECONDS = 60.0
MOST_AT_ONCE = 8

METRICS = frozenset(
    {
        "gpudiag_serving_up",
        "gpudiag_serving_ready",
        "gpudiag_serving_engine_up",
        "gpudiag_serving_config_info",
        "gpudiag_serving_kv_tokens_capacity",
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
        self._found: list[Server] = []
        self._looked_at = -DISCOVER_SECONDS
        self._now = now
        self._monotonic = monotonic
        self._threads: ThreadPoolExecutor | None = None

    def read(self) -> Iterator[Sample]:
        """Every server's samples. Raises `Unavailable` where there is none to look at, and
        `GpudiagError`, after all samples, where one gave no page.
        """
        servers = [*self._servers, *self._discovered()]
        if not servers:
            raise Unavailable("no server is named in probes.serving.servers")
        if self._threads is None:
            self._threads = ThreadPoolExecutor(MOST_AT_ONCE, thread_name_prefix="serving")
        looks = list(self._threads.map(self._look, servers))
        for looked in looks:
            yield from looked.samples
        troubles = [looked.trouble for looked in looks if looked.trouble]
        if troubles:
            raise GpudiagError("; ".join(troubles)[:500])

    def close(self) -> None:
        """Let the threads end."""
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)

    def _look(self, server: Server) -> Looked:
        return look(server, self._now(), _exchange)

    def _discovered(self) -> list[Server]:
        if self._discover is None:
            return []
        if self._monotonic() - self._looked_at >= DISCOVER_SECONDS:
            self._looked_at = self._monotonic()
            known = {server.url for server in self._servers}
            self._found = [server for server in self._discover() if server.url not in known]
        return self._found


def _exchange(url: str, deadline: float) -> Exchange:
    return Exchange(url, deadline, limit=MAX_PAGE_BYTES)
