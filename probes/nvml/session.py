"""One look at the node: NVML started, the GPUs found, read in turn until something is gone."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from typing import Any

from gpudiag.probes.nvml.client import (
    DRIVER_GONE,
    GARBLED,
    UNKNOWN,
    DriverGone,
    Question,
    text_of,
)
from gpudiag.probes.nvml.device import SETS, Device, Identity
from gpudiag.probes.nvml.events import Xids
from gpudiag.probes.nvml.wire import Writer

_COUNT_EVERY = 10
_ONE_TIME = 0.1
_FIRST_LOOK, _RAREST_LOOK = 30, 300


class Session:
    """GPUs between an init and a shutdown. Raises `DriverGone` where only a new process helps.

    `look_after` is after how many reads it ends so that missing GPUs are looked for again.
    """

    def __init__(self, nvml: Any, root: Path, expected: int, look_after: int) -> None:
        self._nvml, self._root = nvml, root
        self._call("nvmlInit")
        self._versions = versions(nvml, root)
        self._driver, self._cuda = self._call("nvmlSystemGetDriverVersion"), self._cuda_version()
        self._listed = int(self._call("nvmlDeviceGetCount"))
        self.devices = self._find()
        self.expected = max(expected, self._listed)
        self._look_after = look_after
        self._told: list[int] = []
        self._xids = Xids(nvml, [(d.identity, d.handle) for d in self.devices])

    def run(self, writer: Writer, cadence: float) -> None:
        """Read every `cadence` seconds until it is time to look at the node anew."""
        turn, due = 0, time.monotonic()
        while not self._stale(turn):
            self._read(turn, writer)
            turn += 1
            due = max(due + cadence, time.monotonic())
            for event in self._xids.wait(due - time.monotonic()):
                who = event.identity
                told = {**who.labels, "bus": who.bus, "xid": event.xid, "instance": event.instance}
                writer.xid({"time": time.time(), **told})

    def close(self) -> None:
        """Shut NVML down, so that the next session finds the GPUs anew."""
        self._xids.close()
        for device in self.devices:
            device.close()
        self._call("nvmlShutdown")

    def _read(self, turn: int, writer: Writer) -> None:
        # The GPUs share one time where they are read at one time: the window has a row for each.
        stamp = time.time()
        for position, device in enumerate(self.devices):
            writer.doing(device.identity.uuid)
            if not 0.0 <= time.time() - stamp < _ONE_TIME:
                stamp = time.time()
            device.read(turn, position * SETS, writer, (stamp, time.monotonic()))
        codes = [device.code for device in self.devices]
        if codes and all(code == UNKNOWN for code in codes):
            raise DriverGone(UNKNOWN)
        if codes != self._told or turn == 0:
            self._told = codes
            writer.status(self._status())
        writer.doing("")

    def _status(self) -> dict[str, Any]:
        gpus = [[d.identity.uuid, d.identity.gpu, d.code] for d in self.devices]
        told = {"up": True, "code": 0, "listed": self._listed}
        return {**told, "gpus": gpus, "versions": self._versions}

    def _stale(self, turn: int) -> bool:
        answering = sum(1 for device in self.devices if device.code == 0)
        if answering < self.expected and turn >= self._look_after:
            return True
        due = turn and turn % _COUNT_EVERY == 0
        return bool(due) and int(self._call("nvmlDeviceGetCount")) != self._listed

    def _find(self) -> list[Device]:
        found = (self._device(index) for index in range(self._listed))
        return [device for device in found if device is not None]

    def _device(self, index: int) -> Device | None:
        nvml = self._nvml
        handle = _unless_gone(nvml, "nvmlDeviceGetHandleByIndex", index)
        uuid = handle and _unless_gone(nvml, "nvmlDeviceGetUUID", handle)
        if not uuid:
            return None
        name, pci = (
            _unless_gone(nvml, f"nvmlDeviceGet{what}", handle) for what in ("Name", "PciInfo")
        )
        identity = Identity(
            uuid=text_of(uuid),
            gpu=str(index),
            name=text_of(name or ""),
            bus=sysfs_bus(text_of(pci.busId)) if pci else "",
            driver=text_of(self._driver),
            cuda=self._cuda,
        )
        return Device(nvml, handle, identity, self._root / "proc")

    def _cuda_version(self) -> str:
        number = Question(self._nvml, "nvmlSystemGetCudaDriverVersion").ask(0)
        return f"{number // 1000}.{number % 1000 // 10}" if number else ""

    def _call(self, name: str) -> Any:
        try:
            return getattr(self._nvml, name)()
        except (self._nvml.NVMLError, *GARBLED) as failure:
            raise DriverGone(int(getattr(failure, "value", UNKNOWN))) from failure


def next_look(session_reads: int) -> int:
    """How long the next session lasts at least while GPUs are missing: 30, 60, ... 300 reads."""
    return min(max(session_reads * 2, _FIRST_LOOK), _RAREST_LOOK)


def versions(nvml: Any, root: Path) -> dict[str, str]:
    """The library's driver version and the loaded module's, where known; also when init failed."""
    told = {}
    with contextlib.suppress(nvml.NVMLError, *GARBLED):
        # "12.570.124.06" is CUDA 12 and driver 570.124.06.
        told["nvml"] = text_of(nvml.nvmlSystemGetNVMLVersion()).partition(".")[2]
    with contextlib.suppress(OSError):
        told["kernel_module"] = (root / "sys/module/nvidia/version").read_text().strip()
    return told


def sysfs_bus(bus: str) -> str:
    """NVML's 00000000:3B:00.0 as sysfs and the kernel log write it: 0000:3b:00.0."""
    domain, _, rest = bus.lower().partition(":")
    return f"{domain[-4:]}:{rest}" if rest else bus


def _unless_gone(nvml: Any, name: str, *args: Any) -> Any | None:
    try:
        return getattr(nvml, name)(*args)
    except nvml.NVMLError as failure:
        if failure.value in DRIVER_GONE:
            raise DriverGone(int(failure.value)) from failure
        return None
    except GARBLED:
        return None
