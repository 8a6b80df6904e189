"""Which probes there are, and how each is made from the configuration."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from gpudiag.agent import files
from gpudiag.agent.config import Config, serving
from gpudiag.agent.config.canary import target
from gpudiag.agent.flight_dumps import judged
from gpudiag.agent.inventory import AfterGpus, Inventory
from gpudiag.agent.state import state_folder
from gpudiag.probes import Probe
from gpudiag.probes.disks import Disks
from gpudiag.probes.host import Host
from gpudiag.probes.infiniband import Infiniband
from gpudiag.probes.kmsg import Kmsg
from gpudiag.probes.logs import places
from gpudiag.probes.logs.probe import Logs
from gpudiag.probes.manifest.probe import ManifestProbe
from gpudiag.probes.network import Network
from gpudiag.probes.nvml.probe import Nvml
from gpudiag.probes.processes import Processes
from gpudiag.probes.remote_space import RemoteSpace
from gpudiag.probes.serving.canary import Canary
from gpudiag.probes.serving.discovery import Discovery
from gpudiag.probes.serving.servers import Servers

KMSG = Path("/dev/kmsg")

Factory = Callable[[Config, Inventory], Probe]


def _nvml(config: Config, inventory: Inventory) -> Probe:
    cadence = config.probes.nvml.cadence or 1.0
    # The kernel log knows of XIDs from before the agent, and of some that NVML never tells.
    counts_xids = not (_enabled(config, "kmsg") and os.access(KMSG, os.R_OK))
    return Nvml(
        cadence=cadence,
        expected=config.node.expected_gpus or inventory.expected_gpus,
        counts_xids=counts_xids,
    )


def _canary(config: Config, inventory: Inventory) -> Probe:
    settings = config.probes.canary
    return Canary(
        [target(server) for server in settings.servers],
        state_folder(os.environ, os.getuid()) / "canary",
        requests_per_hour=settings.requests_per_hour,
        tokens_per_hour=settings.tokens_per_hour,
        busy=lambda server: inventory.load.busy(server, settings.busy_waiting),
    )


def _logs(config: Config, _: Inventory) -> Probe:
    settings = config.probes.logs
    return Logs(
        settings.files,
        containers=(places.CONTAINERS, places.DOCKER) if settings.containers else (),
        state=state_folder(os.environ, os.getuid()) / "logs.json",
        dumps=Path(settings.flight_recorder) if settings.flight_recorder else None,
        judge=judged,
    )


def _manifest(config: Config, _: Inventory) -> Probe:
    settings = config.probes.manifest
    baseline = Path(settings.baseline) if settings.baseline else None
    weights = [Path(folder) for folder in settings.weights]
    return ManifestProbe(baseline, weights, os.environ, python=settings.python)


def _serving(config: Config, _: Inventory) -> Probe:
    settings = config.probes.serving
    servers = [
        serving.server(
            one,
            files.secrets(one.headers, "probes.serving.servers.headers"),
        )
        for one in settings.servers
    ]
    return Servers(servers, Discovery() if settings.discover else None)


FACTORIES: dict[str, Factory] = {
    "canary": _canary,
    "disks": lambda _, __: Disks(remote=RemoteSpace()),
    "host": lambda _, inventory: Host(pids=inventory.pids),
    "infiniband": lambda _, __: Infiniband(),
    "kmsg": lambda _, inventory: AfterGpus(Kmsg(KMSG, identify=inventory.identify), inventory),
    "logs": _logs,
    "manifest": _manifest,
    "network": lambda _, __: Network(),
    "nvml": _nvml,
    "processes": lambda _, inventory: Processes(inventory.watched),
    "serving": _serving,
}


def build(config: Config, inventory: Inventory) -> list[Probe]:
    """The probes that the configuration leaves enabled, at their configured cadence."""
    probes = []
    for name, make in FACTORIES.items():
        if not _enabled(config, name):
            continue
        probe = make(config, inventory)
        cadence = config.probes.of(name).cadence
        if cadence:
            probe.cadence = float(cadence)
        probes.append(probe)
    return probes


def _enabled(config: Config, name: str) -> bool:
    enabled = config.probes.of(name).enabled
    if enabled is not None:
        return enabled
    return not (name == "kmsg" and config.node.role == "sidecar")
