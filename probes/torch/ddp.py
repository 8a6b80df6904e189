"""Time spent waiting for other ranks in DDP's backward, from DDP's own runtime logging."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from gpudiag.probes.torch.features import Features

# On CUDA a sampled iteration reads events, which makes the host wait for the last backward once:
# not at every one. Torch's own rate is 100, too rare for steps of seconds.
CUDA_RATE = 20


class DdpWait:
    """Exposed communication of a backward: communication less what compute overlapped.

    `peek` costs about 8 microseconds and is called at step boundaries at least 50 ms apart; every
    sampled iteration it meets goes into the mean.
    """

    def __init__(self, features: Features) -> None:
        self._features = features
        self._modules: list[weakref.ref[Any]] = []
        self._iteration: dict[int, int] = {}
        self._waits: dict[int, list[int]] = {}

    def __bool__(self) -> bool:
        return bool(self._modules)

    def add(self, module: Any) -> None:
        """Watch a DDP module."""
        if any(ref() is module for ref in self._modules):
            return
        self._modules.append(weakref.ref(module))
        on_cuda = getattr(module, "device_type", "cpu") != "cpu"
        self._features.ddp_rate(module, CUDA_RATE if on_cuda else 1)

    def peek(self) -> None:
        """Read the last sampled iteration of each module."""
        for module in [m for ref in self._modules if (m := ref()) is not None]:
            log = self._features.ddp_logging(module)
            if log:
                self._read(id(module), log)

    def take(self, label: Callable[[Any], str]) -> dict[str, float] | None:
        """Seconds of waiting a step by `label` of the modules' groups; None where none was read."""
        self.peek()
        waits, self._waits = self._waits, {}
        spent: dict[str, float] = {}
        for ref in self._modules:
            module = ref()
            waited = waits.get(id(module))
            if waited:
                group = label(getattr(module, "process_group", None))
                spent[group] = spent.get(group, 0.0) + sum(waited) / len(waited) / 1e9
        return spent or None

    def _read(self, key: int, log: dict[str, Any]) -> None:
        start = log.get("backward_compute_time_start", 0)
        # The stamp of the sampled backward; `iteration` goes on counting between samples.
        if not start or self._iteration.get(key) == start:
            return
        self._iteration[key] = start
        comm = log["backward_comm_time"] - log["backward_compute_comm_overlap_time"]
        if comm >= 0:
            self._waits.setdefault(key, []).append(comm)
