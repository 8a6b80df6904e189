"""What both OTLP pushers share: how sending stands, and that a dead collector only counts."""

from __future__ import annotations

import logging
import re
import threading
import time
from abc import ABC, abstractmethod

from gpudiag.agent.exporters.view import Snapshot, Snapshots
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


class Pusher(ABC):
    """A thread that sends what a snapshot holds every `interval` seconds; failures only count.

    `name` is its own, `what` it sends and `endpoint` the full address, for those who are told.
    """

    def __init__(
        self, snapshots: Snapshots, name: str, what: str, endpoint: str, interval: float
    ) -> None:
        self._snapshots = snapshots
        self._standing = Standing(name, what, endpoint)
        self._interval = interval
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Begin to push; what is heavy is imported in the thread."""
        self._thread.start()

    def stop(self) -> None:
        """End soon; an export under way is abandoned with the process."""
        self._stop.set()

    def status(self) -> ProbeStatus:
        """How pushing goes, in the shape of a probe's state."""
        return self._standing.status

    @property
    def sent(self) -> int:
        """How many requests the collector took."""
        return self._standing.sent

    @property
    def failed(self) -> int:
        """How many it did not take."""
        return self._standing.failed

    def push(self) -> None:
        """One round; never raises."""
        began, now = time.monotonic(), 0.0
        try:
            snapshot = self._snapshots.get()
            now = snapshot.now
            error = self._round(snapshot)
        except Exception as unforeseen:  # the collector's trouble must never be the agent's
            error = f"{type(unforeseen).__name__}: {unforeseen}"
        if error is not None:
            self._standing.note(error, now, time.monotonic() - began)

    @abstractmethod
    def _round(self, snapshot: Snapshot) -> str | None:
        """Send: "" where it arrived, else why not; None where there was nothing to send."""

    def _run(self) -> None:
        while not self._stop.wait(self._interval):
            self.push()
