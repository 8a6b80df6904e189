"""The agent: probes, writer and HTTP in one process, from start to a clean end."""

from __future__ import annotations

import asyncio
import logging
import os
import platform
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from gpudiag.agent import config as configuration
from gpudiag.agent import files, probing
from gpudiag.agent.acting.build import actor_for
from gpudiag.agent.acting.cluster import Around, Cluster, cluster_for
from gpudiag.agent.channel.endings import Endings
from gpudiag.agent.channel.listening import socket_path
from gpudiag.agent.channel.roster import Roster
from gpudiag.agent.channel.server import ChannelServer
from gpudiag.agent.clock import Clock
from gpudiag.agent.config import Config
from gpudiag.agent.engine import Engine, window_for
from gpudiag.agent.escalation.build import escalator_for
from gpudiag.agent.expected import ExpectedGpus
from gpudiag.agent.exporters import control, oncall
from gpudiag.agent.exporters import looking as looks
from gpudiag.agent.exporters.view import AgentInfo, Snapshots
from gpudiag.agent.findings.book import Book
from gpudiag.agent.findings.remark_store import Remarks
from gpudiag.agent.findings.store import Store
from gpudiag.agent.inventory import Inventory
from gpudiag.agent.live import LiveView
from gpudiag.agent.oncall import OnCall
from gpudiag.agent.rules import RULES
from gpudiag.agent.scheduler import ProbeStatus, Scheduler
from gpudiag.agent.selfwatch import SelfWatch, cost_of
from gpudiag.agent.serving import serve
from gpudiag.agent.window.archive import Archive
from gpudiag.agent.writer import Observer, Writer
from gpudiag.probes import Event, Probe, Sample, labels
from gpudiag.probes.errors import UsageError

if TYPE_CHECKING:
    from starlette.routing import Route

    from gpudiag.agent.acting.actor import Actor
    from gpudiag.agent.exporters.otlp import OtlpPusher
    from gpudiag.agent.exporters.otlp_logs import OtlpLogPusher

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
        endings = Endings()
        roster = Roster(inventory.gpu_of, endings, memory_of=inventory.memory_of)
        self._channel = _channel(config, self._scheduler, clock, roster)
        self._store = Store(state / "findings.db")
        self._watch = SelfWatch(lambda: cost_of(_child_pids(probes)))
        self._escalator = escalator_for(
            config.recording.snapshots, state, self._channel, self._scheduler.put, clock.now
        )
        looking = [self._escalator] if self._escalator else []
        self._writer = Writer(
            self._engine(config, state),
            self._store,
            self._scheduler.batches,
            clock,
            about_self=self._about_self,
            observers=[inventory, expected, endings, *looking, *_black_box(config, state)],
        )
        info = agent_info(config, clock.now())
        remarks = Remarks(state / "remarks.db")
        past = self._store.between
        self._cluster = self._in_cluster(config, state)
        self._actor = actor = actor_for(
            config.actions,
            state,
            node(config),
            self._writer,
            self._channel,
            clock.now,
            remarks,
            config.probes.serving.servers,
            self._cluster,
        )
        view = LiveView(info, self._writer, clock.now, self._statuses, past, remarks, actor.tried)
        self._snapshots = Snapshots(view)
        self._otlp = _otlp(config, self._snapshots)
        self._otlp_logs = _otlp_logs(config, self._snapshots, self._actor)
        self._oncall = OnCall(actor.token, remarks, view, self._writer, state, clock.now)

    def _in_cluster(self, config: Config, state: Path) -> Cluster:
        pids = self._channel.pids if self._channel else lambda _: []

        def tell(event: Event) -> None:
            self._scheduler.put([], [event])

        beside = config.actions.workload
        around = Around(node(config), config.node.role, beside, pids, tell)
        return cluster_for(config.kubernetes, around, state, self._clock.now)

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
        if self._channel:
            self._channel.start()
        for part in (self._otlp, self._otlp_logs, self._cluster.watch):
            if part:
                part.start()
        self._actor.start()
        listen = self._config.http.listen
        try:
            asyncio.run(serve(self._snapshots, listen, self._reread, self._more()))
        finally:
            self._actor.stop()
            for part in (self._otlp, self._otlp_logs, self._cluster.watch):
                if part:
                    part.stop()
            if self._channel:
                self._channel.stop()
            self._scheduler.stop()
            self._writer.stop()
            self._writer.thread.join(JOIN_SECONDS)

    def _more(self) -> list[Route]:
        looking = looks.routes(self._escalator, self._actor.token) if self._escalator else []
        return [*control.routes(self._actor), *oncall.routes(self._oncall), *looking]

    def _statuses(self) -> list[ProbeStatus]:
        others = [o.status() for o in (self._channel, self._otlp, self._otlp_logs) if o]
        return self._scheduler.statuses() + others

    def _about_self(self, now: float) -> list[Sample]:
        samples = self._watch.samples(now)
        self._scheduler.stretch = self._watch.stretch
        engine = self._writer.engine
        dropped = float(self._scheduler.dropped + engine.window.dropped)
        samples.append(Sample("gpudiag_samples_dropped_total", (), now, dropped))
        samples += self._actor.samples(now)
        samples += self._escalator.samples(now) if self._escalator else []
        for (symptom, cause), count in engine.book.raised.items():
            of = labels(symptom=symptom, cause=cause)
            samples.append(Sample("gpudiag_findings_total", of, now, float(count)))
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
        if waiting := configuration.needing_restart(self._config, config):
            log.warning("SIGHUP: changes of %s wait for a restart", ", ".join(waiting))


def _child_pids(probes: Sequence[Probe]) -> list[int]:
    """Process ids of the reader children that some probes run."""
    pids = (getattr(probe, "pid", None) for probe in probes)
    return [pid for pid in pids if pid]


def _black_box(config: Config, state: Path) -> list[Observer]:
    if not config.recording.enabled:
        return []
    from gpudiag.agent.recording.blackbox import BlackBox

    settings = config.recording
    folder = state / "recordings"
    return [BlackBox(folder, after=settings.after, max_bytes=settings.max_size, node=node(config))]


def _channel(
    config: Config, scheduler: Scheduler, clock: Clock, roster: Roster
) -> ChannelServer | None:
    settings = config.channel
    if not settings.enabled:
        return None
    named = Path(settings.socket) if settings.socket else socket_path(os.environ, os.getuid())
    put = scheduler.put
    return ChannelServer(named, put, clock, roster, group=settings.group, uids=settings.uids)


def _otlp(config: Config, snapshots: Snapshots) -> OtlpPusher | None:
    settings = config.exporters.otlp
    if not settings.endpoint:
        return None
    # OpenTelemetry costs the agent some 15 MiB: only who exports by it pays them.
    from gpudiag.agent.exporters.otlp import OtlpPusher

    headers = files.secrets(settings.headers, "exporters.otlp.headers")
    return OtlpPusher(snapshots, settings.endpoint, interval=settings.interval, headers=headers)


def _otlp_logs(config: Config, snapshots: Snapshots, actor: Actor) -> OtlpLogPusher | None:
    settings = config.exporters.otlp
    if not settings.logs_endpoint:
        return None
    from gpudiag.agent.exporters.otlp_logs import OtlpLogPusher

    return OtlpLogPusher(
        snapshots,
        settings.logs_endpoint,
        actions=actor.shown,
        interval=settings.interval,
        headers=files.secrets(settings.headers, "exporters.otlp.headers"),
    )


def node(config: Config) -> str:
    """How this node is called."""
    return config.node.name or platform.node()


def agent_info(config: Config, started: float, *, replay: bool = False) -> AgentInfo:
    """Who this agent is, for the page's header and `gpudiag_build_info`."""
    return AgentInfo(
        node=node(config),
        job=config.node.job or os.environ.get("GPUDIAG_JOB", ""),
        version=version("gpudiag"),
        mode=config.actions.mode,
        started=started,
        replay=replay,
    )
