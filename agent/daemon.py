"""The agent: probes, writer and HTTP in one process, from start to a clean end."""

from __future__ import annotations

import asyncio
import logging
import os
import platform
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path

from gpudiag.agent import config as configuration
from gpudiag.agent import probing
from gpudiag.agent.clock import Clock
from gpudiag.agent.config import Config
from gpudiag.agent.engine import Engine, window_for
from gpudiag.agent.expected import ExpectedGpus
from gpudiag.agent.exporters.view import AgentInfo
from gpudiag.agent.findings.book import Book
from gpudiag.agent.findings.store import Store
from gpudiag.agent.inventory import Inventory
from gpudiag.agent.live import LiveView
from gpudiag.agent.rules import RULES
from gpudiag.agent.scheduler import Scheduler
from gpudiag.agent.selfwatch import SelfWatch, cost_of
from gpudiag.agent.serving import serve
from gpudiag.agent.window.archive import Archive
from gpudiag.agent.writer import Observer, Writer
from gpudiag.probes import Probe, Sample
from gpudiag.probes.errors import UsageError

log = logging.getLogger(__name__)

JOIN_SECONDS = 2.0
"""How long the end waits for the writer's last save: SIGTERM must be done within five seconds."""


class Daemon:
    """Everything of one agent, wired; `run` serves until a signal."""

    def __init__(
        self,
        config: Config,
        state: Path,
        *,
        clock: Clock,
        reload: Callable[[], Config] | None = None,
    ) -> None:
        self._config = config
        self._reload = reload
        self._clock = clock
        expected = ExpectedGpus(state / "expected_gpus")
        inventory = Inventory(expected.count)
        probes = probing.build(config, inventory)
        self._scheduler = Scheduler(probes, clock)
        self._store = Store(state / "findings.db")
        self._watch = SelfWatch(lambda: cost_of(_child_pids(probes)))
        self._writer = Writer(
            self._engine(config, state),
            self._store,
            self._scheduler.batches,
            clock,
            about_self=self._about_self,
            observers=[inventory, expected, *_black_box(config, state)],
        )
        self.view = LiveView(
            agent_info(config, clock.now()), self._writer, clock.now, self._scheduler.statuses
        )

    def _engine(self, config: Config, state: Path) -> Engine:
        rules, limits = configuration.rules_in_force(config)
        # The window keeps what any rule may read, so that one enabled later finds its history.
        window = window_for(RULES, archive=Archive(state / "window.db"))
        window.restore(self._clock.now())
        return Engine(rules, limits, window, Book(rules, firing=self._store.firing()))

    def run(self) -> None:
        """Serve until SIGTERM or SIGINT, then stop within five seconds."""
        self._scheduler.start()
        self._writer.thread.start()
        try:
            asyncio.run(serve(self.view, self._config.http.listen, self._reread))
        finally:
            self._scheduler.stop()
            self._writer.stop()
            self._writer.thread.join(JOIN_SECONDS)

    def _about_self(self, now: float) -> list[Sample]:
        samples = self._watch.samples(now)
        self._scheduler.stretch = self._watch.stretch
        dropped = float(self._scheduler.dropped)
        samples.append(Sample("gpudiag_samples_dropped_total", (), now, dropped))
        return samples

    def _reread(self) -> None:
        if self._reload is None:
            log.warning("SIGHUP: this agent was started without a configuration file")
            return
        try:
            config = self._reload()
        except UsageError as error:
            log.error("SIGHUP: %s; going on with the configuration in force", error)
            return
        self._writer.reconfigure(*configuration.rules_in_force(config))
        log.info("SIGHUP: thresholds and rules are read again")


def _child_pids(probes: Sequence[Probe]) -> list[int]:
    """Process ids of the reader children that some probes run."""
    pids = (getattr(probe, "pid", None) for probe in probes)
    return [pid for pid in pids if pid]


def _black_box(config: Config, state: Path) -> list[Observer]:
    if not config.recording.enabled:
        return []
    from gpudiag.agent.recording.blackbox import BlackBox

    node = config.node.name or platform.node()
    settings = config.recording
    folder = state / "recordings"
    return [BlackBox(folder, after=settings.after, max_bytes=settings.max_size, node=node)]


def agent_info(config: Config, started: float, *, replay: bool = False) -> AgentInfo:
    """Who this agent is, for the page's header and `gpudiag_build_info`."""
    return AgentInfo(
        node=config.node.name or platform.node(),
        job=config.node.job or os.environ.get("GPUDIAG_JOB", ""),
        version=version("gpudiag"),
        mode=config.actions.mode,
        started=started,
        replay=replay,
    )
