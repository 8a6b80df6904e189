"""What both OTLP pushers share: how sending stands, and that a dead collector only counts."""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable

from gpudiag.agent.scheduler import ProbeStatus

log = logging.getLogger(__name__)

_USER = re.compile("//[^/@]*@")


class Standing:
    """How sending `what` to `endpoint` goes, in a probe's shape; a failure is told once."""

    def __init__(self, name: str, what: str, endpoint: str) -> None:
        self.sent = 0
        self.failed = 0
        self.status = ProbeStatus(name, ok=True, detail="nothing sent yet")
        self._what = what
        # An address may hold a password, and all this is shown.
        self._endpoint = _USER.sub("//", endpoint)

    def note(self, error: str, now: float, took: float) -> None:
        """One attempt at `now` (epoch seconds) has ended; `error` is "" where it arrived."""
        was = self.status
        if not error:
            self.sent += 1
            if not was.ok:
                log.info("OTLP: %s takes %s again", self._endpoint, self._what)
            self.status = ProbeStatus(was.name, True, "", now, took)
            return
        self.failed += 1
        detail = (
            f"{self._endpoint} does not take {self._what} ({self.failed} exports lost): {error}"
        )
        if was.ok:
            log.warning("OTLP: %s; further failures are only counted", detail)
        self.status = ProbeStatus(was.name, False, detail, was.last_success, took)


class Ticker:
    """A thread that calls `push` every `interval` seconds until it is stopped."""

    def __init__(self, name: str, interval: float, push: Callable[[], None]) -> None:
        self._interval = interval
        self._push = push
        self._stop = threading.Event()
        self.thread = threading.Thread(target=self._run, name=name, daemon=True)

    def stop(self) -> None:
        """End soon; an export under way is abandoned with the process."""
        self._stop.set()

    def _run(self) -> None:
        while not self._stop.wait(self._interval):
            self._push()
