"""One question to NVML and what a refusal means: not here, the GPU is gone, the driver is gone."""

from __future__ import annotations

from typing import Any

from gpudiag.probes.errors import GpudiagError

# Return codes of nvml.h, by what they mean for the one who asked.
NOT_SUPPORTED, TIMEOUT, FUNCTION_NOT_FOUND, UNKNOWN = 3, 10, 13, 999
LIBRARY_NOT_FOUND = 12
ABSENT = frozenset({NOT_SUPPORTED, 4, FUNCTION_NOT_FOUND, 22, 25, 26})
GPU_GONE = frozenset({15, 28})
DRIVER_GONE = frozenset({1, 9, LIBRARY_NOT_FOUND, 18})

ASK_AGAIN = 300
"""Reads until a call that is not supported is tried again (a driver update, MIG switched off)."""


GARBLED = (UnicodeDecodeError,)
"""What the bindings raise, beside NVML's own errors, for a text that is none."""


class GpuGone(GpudiagError):
    """The GPU does not answer any more; `code` is NVML's."""

    def __init__(self, code: int) -> None:
        super().__init__(f"the GPU does not answer (NVML code {code}): look at the kernel log")
        self.code = code


class DriverGone(GpudiagError):
    """The whole library refuses; only a fresh process can try again. `code` is NVML's."""

    def __init__(self, code: int) -> None:
        super().__init__(f"NVML refuses (code {code}): see `gpudiag doctor`")
        self.code = code


class Question:
    """One optional call about one GPU; a refusal is remembered and seldom asked again."""

    __slots__ = ("_again", "_args", "_errors", "_name", "_nvml", "code")

    def __init__(self, nvml: Any, name: str, *args: Any) -> None:
        self.code = 0
        self._nvml, self._name, self._args = nvml, name, args
        self._errors: tuple[type[Exception], ...] = (nvml.NVMLError, *GARBLED)
        self._again = 0

    def ask(self, turn: int) -> Any | None:
        """The answer in read number `turn`, or None. Raises `GpuGone` and `DriverGone`."""
        if turn < self._again:
            return None
        try:
            answer = getattr(self._nvml, self._name)(*self._args)
        except self._errors as failure:
            self.refused(int(getattr(failure, "value", UNKNOWN)), turn)
            return None
        except AttributeError:
            self.refused(FUNCTION_NOT_FOUND, turn)
            return None
        self.code = 0
        return answer

    def refused(self, code: int, turn: int) -> None:
        """Take note of a refusal; it only returns where the call alone is concerned."""
        self.code = code
        if code in GPU_GONE:
            raise GpuGone(code)
        if code in DRIVER_GONE:
            raise DriverGone(code)
        if code in ABSENT:
            self._again = turn + ASK_AGAIN


def text_of(text: str | bytes) -> str:
    """A driver's text as str; the bindings give bytes or str."""
    return text.decode("utf-8", "replace") if isinstance(text, bytes) else text
