"""GPM: bandwidth and SM activity between two samples; Hopper and later."""

from __future__ import annotations

from typing import Any

from gpudiag.probes.nvml.client import Question
from gpudiag.probes.nvml.series import key
from gpudiag.probes.nvml.wire import Readings

_METRICS = (
    (2, key("gpu_sm_active_ratio")),
    (3, key("gpu_sm_occupancy_ratio")),
    (5, key("gpu_tensor_active_ratio")),
    (10, key("gpu_memory_bandwidth_ratio")),
)
# nvml.h asks for 100 ms between the samples.
_SHORTEST = 0.1


class Gpm:
    """One GPU's samples. Only ever one GPU at a time: in parallel the driver was seen to crash."""

    def __init__(self, nvml: Any, handle: Any) -> None:
        self._nvml, self._handle = nvml, handle
        self._support = Question(nvml, "nvmlGpmQueryDeviceSupport", handle)
        self._supported: bool | None = None
        self._samples: list[Any] = []
        self._take = self._support
        self._taken: float | None = None

    def read(self, turn: int, now: float, out: Readings) -> None:
        """Add the ratios since the last read; `now` is monotonic seconds."""
        if self._supported is None:
            self._prepare(turn)
        if not self._supported or (self._taken is not None and now - self._taken < _SHORTEST):
            return
        if self._take.ask(turn) is None:
            self._taken = None
            return
        self._samples.reverse()
        if self._taken is not None:
            self._difference(turn, out)
        self._taken = now
        self._take = Question(self._nvml, "nvmlGpmSampleGet", self._handle, self._samples[0])

    def close(self) -> None:
        """Give the samples back to the driver."""
        for sample in self._samples:
            Question(self._nvml, "nvmlGpmSampleFree", sample).ask(0)
        self._samples, self._supported = [], False

    def _prepare(self, turn: int) -> None:
        answer = self._support.ask(turn)
        if answer is None:
            return
        self._supported = bool(answer.isSupportedDevice)
        if not self._supported:
            return
        allocate = Question(self._nvml, "nvmlGpmSampleAlloc")
        self._samples = [s for s in (allocate.ask(turn), allocate.ask(turn)) if s is not None]
        self._supported = len(self._samples) == 2
        if self._supported:
            self._take = Question(self._nvml, "nvmlGpmSampleGet", self._handle, self._samples[0])
            self._request = self._nvml.c_nvmlGpmMetricsGet_t()
            self._request.version = self._nvml.NVML_GPM_METRICS_GET_VERSION
            self._request.numMetrics = len(_METRICS)
            self._rows = self._request.metrics
            for row, (number, _) in enumerate(_METRICS):
                self._rows[row].metricId = number
            self._ask = Question(self._nvml, "nvmlGpmMetricsGet", self._request)

    def _difference(self, turn: int, out: Readings) -> None:
        # Reversed: the sample just taken is the last.
        self._request.sample1, self._request.sample2 = self._samples
        if self._ask.ask(turn) is None:
            return
        for row, (_, series) in enumerate(_METRICS):
            metric = self._rows[row]
            if metric.nvmlReturn == 0:
                out.add(series, metric.value / 100)
