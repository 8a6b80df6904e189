"""What differs between two manifests, the graver first. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gpudiag.probes.manifest.taking import Manifest

GRAVE = ("torch", "nvidia-nccl", "nvidia-cu", "triton", "vllm", "sglang", "transformers", "flash")
"""Packages whose change is known to break a job; others are told after them."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that is not as it was recorded; "" stands for absent."""

    kind: str
    name: str
    was: str
    now: str

    @property
    def line(self) -> str:
        """As a log would tell it: `package torch differs: was 2.12.0 -> 2.13.0`."""
        name = f"{self.kind} {self.name}".strip()
        return f"{name} differs: was {self.was or 'absent'} -> {self.now or 'absent'}"


def differences(was: Manifest, now: Manifest) -> list[Difference]:
    """All of them; another node with the same environment gives none."""
    found = [
        Difference("environment", name, str(getattr(was, name)), str(getattr(now, name)))
        for name in ("driver", "image", "python", "kernel")
        if getattr(was, name) != getattr(now, name)
    ]
    found += sorted(_maps("package", was.packages, now.packages), key=_grave)
    found += _maps("variable", was.variables, now.variables)
    return found + _maps("environment gpu", was.gpus, now.gpus)


def _maps(kind: str, was: Mapping[str, str], now: Mapping[str, str]) -> list[Difference]:
    return [
        Difference(kind, name, was.get(name, ""), now.get(name, ""))
        for name in sorted(was.keys() | now.keys())
        if was.get(name) != now.get(name)
    ]


def _grave(found: Difference) -> bool:
    return not found.name.lower().startswith(GRAVE)
