"""What one GPU measures each second: memory, load, temperature, power, clocks, throttling."""

from __future__ import annotations

from typing import Any

from gpudiag.probes.nvml.client import Question
from gpudiag.probes.nvml.fields import Batch
from gpudiag.probes.nvml.series import (
    FAST_CALLS,
    FAST_FIELDS,
    MILLI,
    NVLINK5_FIELDS,
    NVLINK_TX,
    POWER,
    THROTTLE,
    key,
)
from gpudiag.probes.nvml.wire import Readings

_MEMORY_TOTAL, _MEMORY_USED = key("gpu_memory_total_bytes"), key("gpu_memory_used_bytes")
_MEMORY_RESERVED = key("gpu_memory_reserved_bytes")
_UTILIZATION, _BUSY = key("gpu_utilization_ratio"), key("gpu_memory_busy_ratio")
_TEMPERATURE = key("gpu_temperature_celsius", sensor="core")
_MARGIN = key("gpu_temperature_margin_celsius")
_SLOWDOWN_THRESHOLD = 1


class Sensors:
    """The fast questions to one GPU, each with what older drivers answer instead."""

    def __init__(self, nvml: Any, handle: Any) -> None:
        def question(name: str, *args: Any) -> Question:
            return Question(nvml, name, handle, *args)

        self._memory = question("nvmlDeviceGetMemoryInfo", nvml.nvmlMemory_v2)
        self._memory_v1 = question("nvmlDeviceGetMemoryInfo")
        self._utilization = question("nvmlDeviceGetUtilizationRates")
        self._temperature = question("nvmlDeviceGetTemperatureV", 0)
        self._temperature_v1 = question("nvmlDeviceGetTemperature", 0)
        self._margin = question("nvmlDeviceGetMarginTemperature")
        self._threshold = question("nvmlDeviceGetTemperatureThreshold", _SLOWDOWN_THRESHOLD)
        self._power = question("nvmlDeviceGetPowerUsage")
        self._reasons = question("nvmlDeviceGetCurrentClocksEventReasons")
        self._reasons_v1 = question("nvmlDeviceGetCurrentClocksThrottleReasons")
        self._plain = [
            (call.key, call.factor, question(call.function, *call.args)) for call in FAST_CALLS
        ]
        self._fields = Batch(nvml, handle, FAST_FIELDS)
        self._nvlink5 = Batch(nvml, handle, NVLINK5_FIELDS)

    @property
    def code(self) -> int:
        """The return code of the last question that every GPU answers."""
        return self._temperature_v1.code or self._memory_v1.code

    def read(self, turn: int, out: Readings) -> None:
        """Add what there is."""
        self._read_memory(turn, out)
        self._read_temperature(turn, out)
        load = self._utilization.ask(turn)
        if load is not None:
            out.add(_UTILIZATION, load.gpu / 100)
            out.add(_BUSY, load.memory / 100)
        for of, factor, question in self._plain:
            value = question.ask(turn)
            if value is not None:
                out.add(of, value * factor)
        reasons = _first(turn, self._reasons, self._reasons_v1)
        if reasons is not None:
            for bit, of in THROTTLE:
                out.add(of, float(reasons & bit != 0))
        self._read_fields(turn, out)

    def _read_memory(self, turn: int, out: Readings) -> None:
        memory = self._memory.ask(turn)
        if memory is not None:
            out.add(_MEMORY_RESERVED, memory.reserved)
        else:
            # The old record's used has the driver's reserve in it; there is no better one.
            memory = self._memory_v1.ask(turn)
        if memory is not None:
            out.add(_MEMORY_TOTAL, memory.total)
            out.add(_MEMORY_USED, memory.used)

    def _read_temperature(self, turn: int, out: Readings) -> None:
        core = _first(turn, self._temperature, self._temperature_v1)
        if core is not None:
            out.add(_TEMPERATURE, core)
        margin = self._margin.ask(turn)
        if margin is None and core is not None:
            threshold = self._threshold.ask(turn)
            margin = None if threshold is None else threshold - core
        if margin is not None:
            out.add(_MARGIN, margin)

    def _read_fields(self, turn: int, out: Readings) -> None:
        before = len(out.keys)
        self._fields.read(turn, out)
        got = out.keys[before:]
        if NVLINK_TX not in got:
            self._nvlink5.read(turn, out)
        if POWER not in got:
            power = self._power.ask(turn)
            if power is not None:
                out.add(POWER, power * MILLI)


def _first(turn: int, newer: Question, older: Question) -> Any | None:
    answer = newer.ask(turn)
    return older.ask(turn) if answer is None else answer
