"""How busy the servers are, as the window last had it: for the canary, which asks no busy one."""

from __future__ import annotations

import time
from collections.abc import Callable

from gpudiag.agent.window import Window

WAITING = "gpudiag_serving_requests_waiting"
WORK = (
    "gpudiag_serving_engine_steps_total",
    "gpudiag_serving_generation_tokens_total",
    "gpudiag_serving_prompt_tokens_total",
    "gpudiag_serving_requests_total",
)
MOVED_SECONDS = 60.0
"""A server whose counters stand longer than that is not overloaded but stuck, or its gauges are."""


class ServingLoad:
    """Looks at the window with each evaluation; any thread may ask."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._waiting: dict[str, float] = {}
        self._done: dict[str, float] = {}
        self._moved: dict[str, float] = {}

    def look(self, window: Window) -> None:
        """Take note of who has requests waiting, and who gets work done."""
        self._waiting = _by_server(window, (WAITING,))
        done = _by_server(window, WORK)
        now = self._monotonic()
        for server, count in done.items():
            if server in self._done and count != self._done[server]:
                self._moved[server] = now
        self._done = done

    def busy(self, server: str, waiting: float) -> bool:
        """Whether so many requests wait before it while it gets work done."""
        moved = self._moved.get(server)
        lately = moved is not None and self._monotonic() - moved <= MOVED_SECONDS
        return lately and self._waiting.get(server, 0.0) >= waiting


def _by_server(window: Window, metrics: tuple[str, ...]) -> dict[str, float]:
    total: dict[str, float] = {}
    for metric in metrics:
        for point in window.latest(metric):
            server = point.labels.get("server", "")
            total[server] = total.get(server, 0.0) + point.value
    return total
