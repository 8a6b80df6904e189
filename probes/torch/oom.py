"""What filled the GPU, written down before the out-of-memory exception leaves torch."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from gpudiag.probes.torch.captures import Captures
from gpudiag.probes.torch.features import Features
from gpudiag.probes.torch.guard import guarded
from gpudiag.probes.torch.inventory import Totals
from gpudiag.probes.torch.memory import of_device

# A loop that catches the exception and tries smaller batches may come here very often.
MOST = 3


class OomObserver:
    """Registered with the allocator once CUDA is up; torch cannot unregister it, `close` mutes it.

    `tell(type, line, **fields)` sends the event.
    """

    def __init__(
        self,
        features: Features,
        captures: Captures,
        inventory: Callable[[], Totals],
        tell: Callable[..., object],
    ) -> None:
        self._features = features
        self._captures = captures
        self._inventory = inventory
        self._tell = tell
        self._attached = False
        self._left = MOST

    def attach(self) -> None:
        """Register; only where CUDA is initialised already, since torch would do it here."""
        if not self._attached and self._features.oom_observer:
            self._attached = True
            self._features.oom_observer(guarded(self.seen))

    def close(self) -> None:
        """Hear no more."""
        self._left = 0

    def seen(self, device: int, wanted: int, total: int, free: int) -> None:
        """An allocation of `wanted` bytes failed; `total` and `free` are the device's bytes."""
        if self._left <= 0:
            return
        self._left -= 1
        stats = {name: value for name, _, value in of_device(self._features.memory_stats() or {})}
        model = {"/".join(key): number for key, number in self._inventory().items()}
        allocated = stats.get("gpudiag_torch_allocated_bytes", 0.0)
        unused = stats.get("gpudiag_torch_reserved_bytes", 0.0) - allocated
        line = (
            f"CUDA out of memory. Tried to allocate {_size(wanted)}. GPU {device} has a total "
            f"capacity of {_size(total)} of which {_size(free)} is free. {_size(allocated)} is "
            f"allocated by PyTorch, and {_size(unused)} is reserved by PyTorch but unallocated."
        )
        said: dict[str, Any] = {"wanted": wanted, "total": total, "free": free}
        composition = {**said, "torch": stats, "model": model}
        self._tell("oom", line, **said, model=model, files=self._files(composition))

    def _files(self, composition: dict[str, Any]) -> list[str]:
        written = []
        for write in (
            lambda: self._captures.write("oom", json.dumps(composition, indent=1)),
            lambda: self._captures.snapshot("oom"),
        ):
            path = guarded(write)()
            if path is not None:
                written.append(str(path))
        return written


def _size(number: float) -> str:
    """As torch writes it: 2.00 GiB, 20.00 MiB, 512 bytes."""
    for unit, power in (("GiB", 30), ("MiB", 20), ("KiB", 10)):
        if number >= 1 << power:
            return f"{number / (1 << power):.2f} {unit}"
    return f"{number:.0f} bytes"
