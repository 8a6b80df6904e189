"""What the configuration holds: one struct a section, durations and sizes with their unit."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from gpudiag.agent.config.acting import Actions
from gpudiag.agent.config.base import Duration, ProbeSettings, Section, Size
from gpudiag.agent.config.canary import CanarySettings
from gpudiag.agent.config.kubernetes import Kubernetes
from gpudiag.agent.config.logs import LogsSettings
from gpudiag.agent.config.manifest import ManifestSettings
from gpudiag.agent.config.serving import ServingSettings


class Node(Section, frozen=True):
    """This node: its name (host name when empty), job, role and how many GPUs it should have."""

    name: str = ""
    job: str = ""
    role: Literal["node", "sidecar"] = "node"
    expected_gpus: Annotated[int, msgspec.Meta(ge=0, le=1024)] | None = None


class Probes(Section, frozen=True):
    """The probes, by name."""

    canary: CanarySettings = CanarySettings()
    disks: ProbeSettings = ProbeSettings()
    host: ProbeSettings = ProbeSettings()
    infiniband: ProbeSettings = ProbeSettings()
    kmsg: ProbeSettings = ProbeSettings()
    logs: LogsSettings = LogsSettings()
    manifest: ManifestSettings = ManifestSettings()
    network: ProbeSettings = ProbeSettings()
    nvml: ProbeSettings = ProbeSettings()
    processes: ProbeSettings = ProbeSettings()
    serving: ServingSettings = ServingSettings()

    def of(self, name: str) -> ProbeSettings:
        """The settings of the probe `name`, one of `PROBES`."""
        settings: ProbeSettings = getattr(self, name)
        return settings


PROBES = Probes.__struct_fields__


class RuleSettings(Section, frozen=True):
    """One rule: thresholds, hold and clear over its defaults, or `disabled` with the reason."""

    disabled: str = ""
    hold: Duration | None = None
    clear: Duration | None = None
    thresholds: dict[str, str | float | int] = {}


class Otlp(Section, frozen=True):
    """OTLP/HTTP export: off while its endpoint is empty; headers may name a file with `@path`."""

    endpoint: str = ""
    logs_endpoint: str = ""
    interval: Duration = Duration(30.0)
    headers: dict[str, str] = {}


class Exporters(Section, frozen=True):
    """Where figures go besides `/metrics`."""

    otlp: Otlp = Otlp()


class Channel(Section, frozen=True):
    """Where training processes report: a Unix socket, for whom its group and `uids` admit."""

    enabled: bool = True
    socket: str = ""
    group: str = ""
    uids: tuple[int, ...] = ()


class Http(Section, frozen=True):
    """The page, `/metrics` and the API: read-only, loopback unless told otherwise."""

    listen: str = "127.0.0.1:9440"


class Snapshots(Section, frozen=True):
    """The closer look at a process whose memory grows: once a job in `every`."""

    enabled: bool = True
    every: Duration = Duration(21600.0)
    gap: Duration = Duration(60.0)
    max_size: Size = Size(2 * 1024**3)


class Recording(Section, frozen=True):
    """The black box around critical findings, and the closer look at memory that grows."""

    enabled: bool = True
    after: Duration = Duration(300.0)
    max_size: Size = Size(256 * 1024**2)
    snapshots: Snapshots = Snapshots()


class Log(Section, frozen=True):
    """The agent's own log, on standard error."""

    level: Literal["debug", "info", "warning", "error"] = "info"


class Config(Section, frozen=True):
    """The whole file."""

    node: Node = Node()
    probes: Probes = Probes()
    rules: dict[str, RuleSettings] = {}
    actions: Actions = Actions()
    exporters: Exporters = Exporters()
    channel: Channel = Channel()
    kubernetes: Kubernetes = Kubernetes()
    http: Http = Http()
    recording: Recording = Recording()
    log: Log = Log()
