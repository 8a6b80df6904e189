"""What the user may tell when attaching; all of it may be left out."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from gpudiag.probes.torch.channel import default_path


@dataclass(frozen=True, slots=True)
class Options:
    """Words of the user that torch cannot tell.

    `layout` as `dp=4,tp=2`; `config` keys precision, recompute, optimizer, sharding go before what
    is found; `kernel_interval` seconds between profiled steps (0: none; without it 600 where there
    is a GPU and none on a CPU); `folder` takes snapshots.
    """

    job: str | None = None
    layout: str | None = None
    config: Mapping[str, str] = field(default_factory=dict)
    sequence_length: int | None = None
    kernel_interval: float | None = None
    folder: Path | None = None
    socket: Path = field(default_factory=default_path)

    def snapshots(self) -> Path:
        """Where snapshots go: as told, `GPUDIAG_SNAPSHOT_DIR`, else beside the socket."""
        told = os.environ.get("GPUDIAG_SNAPSHOT_DIR")
        return self.folder or (Path(told) if told else self.socket.parent / "snapshots")
