"""A recording served as if it were live: the same engine, paced, for a demonstration or a look."""

from __future__ import annotations

import logging
import threading
import time

from gpudiag.agent.engine import Engine
from gpudiag.agent.findings.finding import Finding
from gpudiag.agent.recording.timeline import Timeline
from gpudiag.agent.replay import MIN_STEP, Watch

log = logging.getLogger(__name__)


class Player:
    """Feeds a timeline to an engine at `speed` times its pace, and stands still at its end."""

    def __init__(
        self,
        timeline: Timeline,
        engine: Engine,
        speed: float,
        watch: Watch = lambda _now, _found: None,
    ) -> None:
        """`watch` is told what stands after each step, as in `replay`."""
        self.lock = threading.Lock()
        self.generation = 0
        self.engine = engine
        self._timeline = timeline
        self._speed = speed
        self._watch = watch
        self._now = timeline.start
        self._stop = threading.Event()
        self.thread = threading.Thread(target=self._run, name="player", daemon=True)

    @property
    def findings(self) -> list[Finding]:
        """Pending, firing and lately resolved ones."""
        with self.lock:
            return self.engine.book.findings()

    def now(self) -> float:
        """The recording's clock, epoch seconds as it was recorded."""
        return self._now

    def stop(self) -> None:
        """End early."""
        self._stop.set()

    def _run(self) -> None:
        began = time.monotonic()
        for now, samples, events, on_step in self._timeline.batches(self._step()):
            due = began + (now - self._timeline.start) / self._speed
            if self._stop.wait(max(0.0, due - time.monotonic())):
                return
            with self.lock:
                self._now = now
                wanted = self.engine.ingest(samples, events)
                changed: list[Finding] = []
                if on_step or wanted:
                    changed = self.engine.evaluate(now, None if on_step else wanted)
                self.generation += 1
            if on_step:
                self._watch(now, self.findings)
            for finding in changed:
                log.warning("%s %s: %s", finding.state, finding.id, finding.summary)
        log.info("the recording has ended; its last moment stays on the page")

    def _step(self) -> float:
        return max(MIN_STEP, self._timeline.interval)
