"""What of one GPU seldom changes: ECC, row remapping, links, limits, the fabric; read every 5 s."""

from __future__ import annotations

from ctypes import byref
from typing import Any

from gpudiag.probes.nvml.client import Question
from gpudiag.probes.nvml.fields import Batch
from gpudiag.probes.nvml.links import Links
from gpudiag.probes.nvml.series import SLOW_CALLS, SLOW_FIELDS, key
from gpudiag.probes.nvml.wire import Readings

_SRAM = key("gpu_sram_ecc_threshold_exceeded")
_FABRIC = key("gpu_fabric_state")


class Health:
    """The slow questions to one GPU."""

    def __init__(self, nvml: Any, handle: Any) -> None:
        self._plain = [
            (call.key, call.factor, Question(nvml, call.function, handle, *call.args))
            for call in SLOW_CALLS
        ]
        self._fields, self._links = Batch(nvml, handle, SLOW_FIELDS), Links(nvml, handle)
        self._sram = _Record(nvml, handle, "SramEccErrorStatus", "c_nvmlEccSramErrorStatus_v1_t")
        self._fabric = _Record(nvml, handle, "GpuFabricInfoV", "c_nvmlGpuFabricInfoV_t")
        self._fabric_v1 = _Record(nvml, handle, "GpuFabricInfo", "c_nvmlGpuFabricInfo_t")

    def read(self, turn: int, out: Readings) -> None:
        """Add what there is."""
        self._fields.read(turn, out)
        for of, factor, question in self._plain:
            value = question.ask(turn)
            if value is not None:
                out.add(of, value * factor)
        sram = self._sram.ask(turn)
        if sram is not None:
            out.add(_SRAM, float(sram.bThresholdExceeded != 0))
        fabric = self._fabric.ask(turn) or self._fabric_v1.ask(turn)
        # 0 is "this GPU has no fabric", which is not a state.
        if fabric is not None and fabric.state:
            out.add(_FABRIC, fabric.state)
        self._links.read(turn, out)


class _Record:
    """A call that fills a record of the caller's."""

    def __init__(self, nvml: Any, handle: Any, name: str, record: str) -> None:
        make = getattr(nvml, record, None)
        self._record: Any = make() if make else None
        argument = None if self._record is None else byref(self._record)
        self._question = Question(nvml, f"nvmlDeviceGet{name}", handle, argument)

    def ask(self, turn: int) -> Any | None:
        if self._record is None or self._question.ask(turn) is None:
            return None
        return self._record
