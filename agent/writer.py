"""The one thread that owns the window and the findings: takes batches in, evaluates, saves."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from gpudiag.agent.clock import Clock
from gpudiag.agent.engine import Engine
from gpudiag.agent.findings.finding import Finding
from gpudiag.agent.findings.store import Store
from gpudiag.agent.rules.contract import Limits, Rule
from gpudiag.agent.scheduler import Batch
from gpudiag.agent.window import Window
from gpudiag.probes import Event, Sample

log = logging.getLogger(__name__)

EVALUATE_SECONDS = 5.0


class Observer(Protocol):
    """Whoever wants to see what passes: the inventory, the black box."""

    def observe(self, samples: Sequence[Sample], events: Sequence[Event], /) -> None: ...

    def on_findings(self, now: float, changed: Sequence[Finding], window: Window, /) -> None: ...


class Writer:
    """Drains the queue into the engine and evaluates every 5 s, at once where an event asks for it.

    Readers on other threads hold `lock` while they look at the window or the book.
    """

    def __init__(
        self,
        engine: Engine,
        store: Store,
        batches: queue.Queue[Batch],
        clock: Clock,
        *,
        about_self: Callable[[float], Iterable[Sample]],
        observers: Sequence[Observer] = (),
    ) -> None:
        self.lock = threading.Lock()
        self.generation = 0
        self.evaluated_at = clock.now()
        """When all rules last ran, epoch seconds."""
        self._evaluated = threading.Condition()
        self._evaluations = 0
        self._engine = engine
        self._store = store
        self._batches = batches
        self._clock = clock
        self._about_self = about_self
        self._observers = observers
        self._failed = ""
        self._told: dict[str, tuple[str, ...]] = {}
        self.findings = engine.book.findings()
        """Pending, firing and lately resolved ones, as they were saved; any thread may read it."""
        for known in self._turns(self.findings):
            _announce(known)
        self._stopping = threading.Event()
        self._next_rules: tuple[Mapping[str, Rule], Mapping[str, Limits]] | None = None
        self._due = clock.monotonic()
        self.thread = threading.Thread(target=self._run, name="writer", daemon=True)

    @property
    def engine(self) -> Engine:
        """The engine at work; read its window and book under `lock`."""
        return self._engine

    def reconfigure(self, rules: Mapping[str, Rule], limits: Mapping[str, Limits]) -> None:
        """Go on with these rules and thresholds from the next evaluation on."""
        self._next_rules = rules, limits

    def refresh(self, seconds: float) -> bool:
        """Have all rules run now, and wait for it; False where it took longer than `seconds`."""
        with self._evaluated:
            wanted = self._evaluations + 1
            self._due = self._clock.monotonic()
            return self._evaluated.wait_for(lambda: self._evaluations >= wanted, seconds)

    def stop(self) -> None:
        """Ask for the end; `thread.join` waits for the last save."""
        self._stopping.set()

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._guarded_turn(max(0.0, min(self._due - self._clock.monotonic(), 0.5)))
        self._store.save((), self._clock.now())
        self._store.close()
        self._engine.window.close()

    def _guarded_turn(self, wait: float) -> None:
        # One bad batch costs itself: without its writer the agent would look alive and be blind.
        try:
            self.turn(wait)
        except Exception as error:
            if str(error) != self._failed:
                log.exception("a batch or an evaluation failed; the agent goes on without it")
            self._failed = str(error)

    def turn(self, wait: float) -> None:
        """Take one batch, waiting at most `wait` seconds for it, and evaluate where that is due."""
        wanted: frozenset[str] = frozenset()
        try:
            samples, events = (
                self._batches.get(timeout=wait) if wait else self._batches.get_nowait()
            )
        except queue.Empty:
            pass
        else:
            wanted = self._take(samples, events)
        if self._clock.monotonic() >= self._due:
            self._due = max(self._due + EVALUATE_SECONDS, self._clock.monotonic())
            self._evaluate(None)
        elif wanted:
            self._evaluate(wanted)

    def _take(self, samples: list[Sample], events: list[Event]) -> frozenset[str]:
        jump = self._clock.jump()
        with self.lock:
            if jump:
                self._rebase(jump, events)
            wanted = self._engine.ingest(samples, events)
            self.generation += 1
        self._engine.window.save()
        for observer in self._observers:
            observer.observe(samples, events)
        return wanted

    def _rebase(self, jump: float, events: list[Event]) -> None:
        log.warning("the clock jumped by %+.0f s: the history is moved along", jump)
        self._engine.rebase(jump)
        line = f"the clock jumped by {jump:+.0f} s"
        events.append(Event(self._clock.now(), "agent", line, "clock_jump"))

    def _evaluate(self, only: frozenset[str] | None) -> None:
        now = self._clock.now()
        with self.lock:
            changed = self._reconfigured(now)
            if only is None:
                self._engine.ingest(self._about_self(now))
            changed += self._engine.evaluate(now, only)
            standing = self._engine.book.findings()
        # Saved before anyone can see it, so that what was shown once survives a kill; and outside
        # the lock, so that a slow disk keeps nobody from reading figures.
        self._store.save(changed, now)
        self.findings = standing
        self.generation += 1
        if only is None:
            with self._evaluated:
                self.evaluated_at = now
                self._evaluations += 1
                self._evaluated.notify_all()
        turns = self._turns(changed)
        for finding in turns:
            _announce(finding)
        for observer in self._observers:
            observer.on_findings(now, turns, self._engine.window)

    def _reconfigured(self, now: float) -> list[Finding]:
        rules, self._next_rules = self._next_rules, None
        return self._engine.reconfigure(now, *rules) if rules else []

    def _turns(self, changed: Iterable[Finding]) -> list[Finding]:
        """Those changes that a person should hear of; input that went stale or came back is not."""
        turns = []
        for finding in changed:
            turn = (finding.state, finding.cause, finding.severity, finding.explained_by)
            if self._told.get(finding.id) != turn:
                self._told[finding.id] = turn
                turns.append(finding)
            if finding.state == "resolved":
                del self._told[finding.id]
        return turns


def _announce(finding: Finding) -> None:
    level = logging.WARNING if finding.state == "firing" else logging.INFO
    log.log(level, "%s %s: %s", finding.state, finding.id, finding.summary)
