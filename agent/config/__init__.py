"""The configuration: a typed YAML file whose errors name the key and the line."""

from gpudiag.agent.config.base import Duration, ProbeSettings, Size
from gpudiag.agent.config.reading import load, needing_restart, parse, rules_in_force
from gpudiag.agent.config.sections import PROBES, Config, RuleSettings

__all__ = [
    "PROBES",
    "Config",
    "Duration",
    "ProbeSettings",
    "RuleSettings",
    "Size",
    "load",
    "needing_restart",
    "parse",
    "rules_in_force",
]
