"""Time of one step by kind of kernel, from a short profiler window taken rarely."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

from gpudiag.probes.torch.features import Features
from gpudiag.probes.torch.meter import Value

EVERY = 600.0
# The first match counts: an attention kernel is made of gemms, a collective of copies.
KINDS = (
    ("comm", ("nccl", "gloo", "c10d", "all_reduce", "allreduce", "all_gather", "reduce_scatter")),
    ("attention", ("attention", "flash", "fmha", "sdpa")),
    ("gemm", ("gemm", "aten::mm", "addmm", "bmm", "matmul", "cutlass", "nvjet", "convolution")),
    ("memory", ("memcpy", "memset", "copy_", "fill_", "zero_", "::cat")),
)


def kind(name: str) -> str:
    """gemm, attention, comm, memory or other, by the name of a kernel or operator."""
    lower = name.lower()
    return next((kind for kind, words in KINDS if any(w in lower for w in words)), "other")


class Kernels:
    """Profiles one step every `interval` seconds (0: never), and tells what that cost.

    The first window of a process may cost seconds, as CUPTI starts then. Another profiler that
    runs is left alone.
    """

    def __init__(
        self,
        torch: Any,
        features: Features,
        interval: float | None,
        tell: Callable[..., object],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._torch = torch
        self._features = features
        self._interval = interval
        self._tell = tell
        self._clock = clock
        self._next: float | None = None
        self._window: Any = None
        self._cost = 0.0
        self._values: list[Value] = []

    def boundary(self) -> bool:
        """Open or close the window; True while it is open, then the next boundary matters."""
        now = self._clock()
        if self._window is not None:
            self._close(now)
        elif self._due(now):
            self._next = now + (self._interval or EVERY)
            self._open(now)
        return self._window is not None

    def close(self) -> None:
        """End a window that is open: torch crashes where the process ends inside one."""
        window, self._window = self._window, None
        if window is not None:
            window.stop()

    def take(self, steps: int) -> list[Value]:  # noqa: ARG002 - one step was profiled
        """Seconds by kind, once after each window."""
        values, self._values = self._values, []
        return values

    def _due(self, now: float) -> bool:
        if self._interval is None:
            on_gpu = self._torch.cuda.is_initialized()
            self._interval = EVERY if on_gpu else 0.0
        if not self._interval:
            return False
        if self._next is None:
            # Not among the first steps, which compile and warm up.
            self._next = now + min(self._interval, 60.0)
        return now >= self._next

    def _open(self, now: float) -> None:
        if self._features.profiler_busy():
            return
        profiler = self._torch.profiler
        activities = list(profiler.supported_activities())
        window = profiler.profile(activities=activities)
        window.start()
        self._window, self._cost = window, self._clock() - now

    def _close(self, now: float) -> None:
        window, self._window = self._window, None
        window.stop()
        seconds = totals(window.key_averages(), self._torch.cuda.is_initialized())
        self._values = [
            ("gpudiag_train_kernel_seconds", {"kind": kind}, value)
            for kind, value in sorted(seconds.items())
        ]
        self._cost += self._clock() - now
        self._tell("kernel_profile", f"a profiled step cost {self._cost:.3f} s", cost=self._cost)


def totals(averages: Iterable[Any], on_gpu: bool) -> dict[str, float]:
    """Seconds by kind; on a GPU of kernels, on a CPU of operators without those they call."""
    seconds: dict[str, float] = defaultdict(float)
    for average in averages:
        # self_device_time_total was self_cuda_time_total before torch 2.4.
        spent = average.self_device_time_total if on_gpu else average.self_cpu_time_total
        if spent > 0:
            seconds[kind(average.key)] += spent / 1e6
    return dict(seconds)
