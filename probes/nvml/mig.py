"""MIG: the instances of a partitioned GPU, their memory and processes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gpudiag.probes.nvml.client import Question, text_of
from gpudiag.probes.nvml.processes import Processes
from gpudiag.probes.nvml.series import key
from gpudiag.probes.nvml.wire import Readings

RESCAN = 60
"""Reads between two looks for new or removed instances."""


@dataclass(frozen=True, slots=True)
class Instance:
    """One MIG device; `number` is its GPU instance, `profile` such as 1g.10gb."""

    uuid: str
    number: int
    profile: str
    memory: Question
    processes: Question


class Mig:
    """The MIG devices of one GPU; none where MIG is off or unknown."""

    def __init__(self, nvml: Any, handle: Any, processes: Processes) -> None:
        self.instances: list[Instance] = []
        self._nvml, self._handle, self._processes = nvml, handle, processes
        self._mode = Question(nvml, "nvmlDeviceGetMigMode", handle)
        self._most = Question(nvml, "nvmlDeviceGetMaxMigDeviceCount", handle)
        self._scan_at = 0

    def scan(self, turn: int) -> None:
        """Look for instances again when it is time."""
        if turn < self._scan_at:
            return
        self._scan_at = turn + RESCAN
        mode = self._mode.ask(turn)
        most = (self._most.ask(turn) or 0) if mode is not None and mode[0] == 1 else 0
        found = [self._instance(index, turn) for index in range(most)]
        self.instances = [instance for instance in found if instance is not None]

    def read(self, turn: int, out: Readings) -> None:
        """Add each GPU instance's memory, once though its compute instances share it."""
        seen = set()
        for instance in self.instances:
            memory = None if instance.number in seen else instance.memory.ask(turn)
            if memory is not None:
                seen.add(instance.number)
                labels = {"gpu_instance": str(instance.number)}
                out.add(key("gpu_mig_memory_total_bytes", **labels), memory.total)
                out.add(key("gpu_mig_memory_used_bytes", **labels), memory.used)

    def read_processes(self, turn: int, out: Readings) -> None:
        """Add the processes of every instance."""
        for instance in self.instances:
            self._processes.add(instance.processes.ask(turn) or (), out)

    def _instance(self, index: int, turn: int) -> Instance | None:
        nvml = self._nvml
        device = Question(nvml, "nvmlDeviceGetMigDeviceHandleByIndex", self._handle, index)
        handle = device.ask(turn)
        if handle is None:
            return None
        uuid = Question(nvml, "nvmlDeviceGetUUID", handle).ask(turn)
        number = Question(nvml, "nvmlDeviceGetGpuInstanceId", handle).ask(turn)
        name = text_of(Question(nvml, "nvmlDeviceGetName", handle).ask(turn) or "")
        if uuid is None or number is None:
            return None
        return Instance(
            uuid=text_of(uuid),
            number=number,
            profile=name.rpartition("MIG ")[2] if "MIG " in name else "",
            memory=Question(nvml, "nvmlDeviceGetMemoryInfo", handle, nvml.nvmlMemory_v2),
            processes=self._processes.question(handle),
        )
