"""Attach without a line in the training script: `install()` from a `sitecustomize`."""

from __future__ import annotations

import os
from typing import Any

from gpudiag.probes.torch.current import CURRENT
from gpudiag.probes.torch.guard import guarded
from gpudiag.probes.torch.imports import when_imported
from gpudiag.probes.torch.options import Options


@guarded
def install() -> None:
    """Attach when this process imports torch; a process that never does pays nothing.

    A rank (`RANK` is set, as torchrun does) says hello at once. Any other process does at its
    first optimizer step, so that launchers and tools that import torch stay silent.
    """
    when_imported("torch", guarded(_attach))


def _attach(torch: Any) -> None:
    layout = os.environ.get("GPUDIAG_LAYOUT")
    CURRENT.attach(torch, Options(layout=layout), eager="RANK" in os.environ)
