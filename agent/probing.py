"""Which probes there are, and how each is made from the configuration."""

from __future__ import annotations

from collections.abc import Callable

from gpudiag.agent.config import Config
from gpudiag.probes import Probe

Factory = Callable[[Config], Probe]


def build(config: Config) -> list[Probe]:
    """The probes that the configuration leaves enabled."""
    enabled = {name: s.enabled for name, s in config.probes.items()}
    return [make(config) for name, make in FACTORIES.items() if enabled.get(name, True)]
