"""The section `probes.manifest`: what a job runs in, as it was recorded, and its weights."""

from __future__ import annotations

from gpudiag.agent.config.base import ProbeSettings


class ManifestSettings(ProbeSettings, frozen=True):
    """`baseline` was saved by `gpudiag doctor --save`; `weights` are folders to look through."""

    baseline: str = ""
    weights: tuple[str, ...] = ()
    python: str = ""
