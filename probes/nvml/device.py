"""One GPU: its name, and its sets of series."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from gpudiag.probes.nvml.client import GPU_GONE, GpuGone
from gpudiag.probes.nvml.gpm import Gpm
from gpudiag.probes.nvml.health import Health
from gpudiag.probes.nvml.mig import Mig
from gpudiag.probes.nvml.processes import Processes
from gpudiag.probes.nvml.sensors import Sensors
from gpudiag.probes.nvml.series import key
from gpudiag.probes.nvml.wire import Readings, Writer

SLOW_EVERY = 5
"""Reads between two of what seldom changes."""

SETS = 4
"""Sets of series that one GPU has."""

_SLOW_SET = 1
_FORGET_NAMES = 60
_LOST = key("gpu_lost")


class Identity(NamedTuple):
    """What a GPU is called; `bus` as sysfs writes it (0000:3b:00.0)."""

    uuid: str
    gpu: str
    name: str
    bus: str
    driver: str
    cuda: str

    @property
    def labels(self) -> dict[str, str]:
        """The labels that all its series have."""
        return {"uuid": self.uuid, "gpu": self.gpu}


class Device:
    """Reads one GPU; `code` is why it gives nothing (0 while it does)."""

    def __init__(self, nvml: Any, handle: Any, identity: Identity, proc: Path) -> None:
        self.identity, self.handle, self.code = identity, handle, 0
        self._processes = Processes(nvml, proc)
        self._held = self._processes.question(handle)
        self._mig = Mig(nvml, handle, self._processes)
        self._gpm = Gpm(nvml, handle)
        self._sensors, self._health = Sensors(nvml, handle), Health(nvml, handle)

    def read(self, turn: int, first_set: int, writer: Writer, at: tuple[float, float]) -> None:
        """Send all sets that are due. A GPU that is gone sends that alone; raises `DriverGone`.

        `at` is the time of the readings on the wall clock and now on the monotonic one.
        """
        time, now = at
        sets = [Readings() for _ in range(SETS)]
        try:
            if self.code == 0:
                self._fill(turn, now, sets)
        except GpuGone as gone:
            self.code = gone.code
        if self.code:
            sets = [Readings() for _ in range(SETS)]
        if self.code == 0 or self.code in GPU_GONE:
            sets[0].add(_LOST, float(self.code != 0))
        for number, got in enumerate(sets):
            if number != _SLOW_SET or self.code or turn % SLOW_EVERY == 0:
                writer.readings(first_set + number, self.identity.labels, time, got)

    def close(self) -> None:
        """Give back what the driver lent."""
        self._gpm.close()

    def _fill(self, turn: int, now: float, sets: list[Readings]) -> None:
        fast, slow, processes, mig = sets
        self._sensors.read(turn, fast)
        if not fast.keys and self._sensors.code:
            raise GpuGone(self._sensors.code)
        self._gpm.read(turn, now, fast)
        self._mig.scan(turn)
        if self._mig.instances:
            self._mig.read(turn, mig)
            self._mig.read_processes(turn, processes)
        else:
            self._processes.add(self._held.ask(turn) or (), processes)
        if turn % SLOW_EVERY == 0:
            self._health.read(turn, slow)
            self._inform(slow)
        if turn % _FORGET_NAMES == 0:
            self._processes.forget_names()

    def _inform(self, slow: Readings) -> None:
        who = self.identity
        info = {"name": who.name, "pci_bus_id": who.bus, "driver": who.driver, "cuda": who.cuda}
        slow.add(key("gpu_info", **info), 1.0)
        for instance in self._mig.instances:
            part = {**info, "uuid": instance.uuid, "mig_profile": instance.profile}
            slow.add(key("gpu_info", **part), 1.0)
