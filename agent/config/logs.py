"""The section `probes.logs`: which logs are followed, and where a hang's dumps appear."""

from __future__ import annotations

from gpudiag.agent.config.base import ProbeSettings


class LogsSettings(ProbeSettings, frozen=True):
    """Glob patterns of files, the logs of this node's containers, and a folder of dumps."""

    files: tuple[str, ...] = ()
    containers: bool = False
    flight_recorder: str = ""
