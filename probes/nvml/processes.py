"""Who holds memory on a GPU: pid, name and bytes, where the driver says so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gpudiag.probes.nvml.client import Question
from gpudiag.probes.nvml.series import key
from gpudiag.probes.nvml.wire import Readings


class Processes:
    """Names by pid from `proc` (the host's pids: in another pid namespace the name stays empty)."""

    def __init__(self, nvml: Any, proc: Path) -> None:
        self._nvml, self._proc = nvml, proc
        self._names: dict[int, str] = {}
        self._call = _call_for(nvml)

    def question(self, handle: Any) -> Question:
        """The call that lists a GPU's (or MIG device's) compute processes."""
        return Question(self._nvml, self._call, handle)

    def add(self, answer: Any, out: Readings) -> None:
        """Add each process whose memory the driver knows."""
        for process in answer:
            # None: the driver does not say (WSL, some containers); that is not zero.
            if process.usedGpuMemory is not None:
                labels = {"pid": str(process.pid), "process": self._name(process.pid)}
                out.add(key("gpu_process_memory_bytes", **labels), process.usedGpuMemory)

    def forget_names(self) -> None:
        """Ask for names anew; pids are used again."""
        self._names.clear()

    def _name(self, pid: int) -> str:
        name = self._names.get(pid)
        if name is None:
            try:
                name = (self._proc / str(pid) / "comm").read_text(errors="replace").strip()
            except OSError:
                name = ""
            self._names[pid] = name
        return name


def _call_for(nvml: Any) -> str:
    # Drivers 535.43-535.98 fill a longer v3 record than the bindings expect: pid and memory come
    # out as garbage. They are told by the symbols they have and lack (nvitop #79).
    legacy = _has(nvml, "nvmlDeviceGetConfComputeMemSizeInfo") and not _has(
        nvml, "nvmlDeviceGetRunningProcessDetailList"
    )
    newest = _has(nvml, "nvmlDeviceGetComputeRunningProcesses_v3")
    version = "v3" if newest and not legacy else "v2"
    return f"nvmlDeviceGetComputeRunningProcesses_{version}"


def _has(nvml: Any, symbol: str) -> bool:
    return hasattr(nvml.nvmlLib, symbol)
