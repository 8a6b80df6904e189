"""NVLink: which links are up and their errors, one driver call where the driver can batch them."""

from __future__ import annotations

from typing import Any

from gpudiag.probes.nvml.client import Question
from gpudiag.probes.nvml.fields import Batch, Field
from gpudiag.probes.nvml.series import key
from gpudiag.probes.nvml.wire import Readings

_COUNT, _STATE = 91, 165
_ERRORS = ((163, 2, "crc"), (161, 0, "replay"), (162, 1, "recovery"))
"""Field number, counter number of the older call, our kind."""

_UP = frozenset({1.0, 2.0})
"""Active, and asleep to save power (NVML_NVLINK_STATE_*)."""

_RAW = key("nvlink_count")


class Links:
    """The NVLinks of one GPU, none on a board without."""

    def __init__(self, nvml: Any, handle: Any) -> None:
        self._nvml, self._handle = nvml, handle
        self._count = Batch(nvml, handle, [Field(_COUNT, _RAW)])
        self._links: int | None = None

    def read(self, turn: int, out: Readings) -> None:
        """Add each link's state and error counters."""
        if self._links is None and not self._find(turn):
            return
        got = Readings()
        self._batch.read(turn, got)
        if got.keys:
            for series, value in zip(got.keys, got.values, strict=True):
                out.add(series, float(value in _UP) if series in self._states else value)
        else:
            self._one_by_one(turn, out)

    def _find(self, turn: int) -> bool:
        got = Readings()
        self._count.read(turn, got)
        if not got.keys:
            return False
        self._links = int(got.values[0])
        links = range(self._links)
        states = [Field(_STATE, key("gpu_nvlink_up", link=str(n)), scope=n) for n in links]
        errors = [
            Field(number, key("gpu_nvlink_errors_total", link=str(n), kind=kind), scope=n)
            for n in links
            for number, _, kind in _ERRORS
        ]
        self._states = frozenset(field.key for field in states)
        self._batch = Batch(self._nvml, self._handle, states + errors)
        self._older = self._older_questions(links)
        return True

    def _older_questions(self, links: range) -> list[tuple[Any, Question]]:
        state, errors = "nvmlDeviceGetNvLinkState", "nvmlDeviceGetNvLinkErrorCounter"
        asked = [
            (key("gpu_nvlink_up", link=str(n)), Question(self._nvml, state, self._handle, n))
            for n in links
        ]
        return asked + [
            (
                key("gpu_nvlink_errors_total", link=str(n), kind=kind),
                Question(self._nvml, errors, self._handle, n, counter),
            )
            for n in links
            for _, counter, kind in _ERRORS
        ]

    def _one_by_one(self, turn: int, out: Readings) -> None:
        for series, question in self._older:
            value = question.ask(turn)
            if value is not None:
                out.add(series, float(value))
