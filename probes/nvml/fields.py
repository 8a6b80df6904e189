"""Many numbers in one driver call (`nvmlDeviceGetFieldValues`), each with its own return code."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

from gpudiag.probes.nvml.client import ABSENT, ASK_AGAIN, GPU_GONE, GpuGone, Question
from gpudiag.probes.nvml.wire import Key, Readings

ALL_LINKS = 0xFFFFFFFF
# fieldId, scopeId, timestamp, latencyUsec, valueType, nvmlReturn, value (union of 8 bytes)
_VALUE = struct.Struct("=IIqqII8s")
_UNION = {
    0: struct.Struct("=d"),
    1: struct.Struct("=I4x"),
    2: struct.Struct("=Q"),
    3: struct.Struct("=Q"),
    4: struct.Struct("=q"),
    5: struct.Struct("=i4x"),
    6: struct.Struct("=H6x"),
}


class Field(NamedTuple):
    """NVML field `number` in `scope` (a link; else 0), times `factor` into `key`."""

    number: int
    key: Key
    factor: float = 1.0
    scope: int = 0


class Batch:
    """Fields of one GPU that are read together; those not supported are left out next time."""

    def __init__(self, nvml: Any, handle: Any, fields: Sequence[Field]) -> None:
        self.code = 0
        self._nvml, self._handle, self._all = nvml, handle, fields
        self._whole_again = 0
        self._ask(fields)

    def read(self, turn: int, out: Readings) -> None:
        """Add what the driver says; raises `GpuGone` and `DriverGone`."""
        if turn >= self._whole_again:
            self._whole_again = turn + ASK_AGAIN
            self._ask(self._all)
        answer = self._question.ask(turn) if self._fields else None
        self.code = self._question.code
        if answer is not None:
            self._take(answer, out)

    def _ask(self, fields: Sequence[Field]) -> None:
        self._fields = fields
        wanted = [(field.number, field.scope) for field in fields]
        self._question = Question(self._nvml, "nvmlDeviceGetFieldValues", self._handle, wanted)

    def _take(self, answer: Any, out: Readings) -> None:
        absent = []
        for field, row in zip(self._fields, _VALUE.iter_unpack(answer), strict=True):
            kind, code, union = row[4], row[5], row[6]
            if code == 0 and kind in _UNION:
                out.add(field.key, _UNION[kind].unpack(union)[0] * field.factor)
            elif code in GPU_GONE:
                raise GpuGone(code)
            elif code in ABSENT:
                absent.append(field)
        if absent:
            self._ask([field for field in self._fields if field not in absent])
