"""The state the simulated driver answers from; tests change it while the agent runs."""

from __future__ import annotations

import os
import struct
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

ALL = -1
NA = None
"""As a value: the driver answers NOT_SUPPORTED (for a process's memory: not available)."""

GI_NONE = 0xFFFFFFFF
_SLOTS, _SLOT = 512, struct.Struct("=56sQ")


def uuid_of(gpu: int) -> str:
    """The UUID that simulated GPU number `gpu` has unless it is told another."""
    return f"GPU-5e7a1f00-0000-4000-8000-{gpu:012d}"


@dataclass(slots=True)
class SimDriver:
    """Writes the state file `path`; every method takes effect at the next driver call.

    Values are raw NVML units (bytes, milliwatts, MHz, nanoseconds; GPM ratios in 1/10000); their
    names are those of `ATTRIBUTES` in `src/sim.h`. `gpu=ALL` speaks of every GPU. Without a word
    it is a node of eight H100 that train.
    """

    path: Path
    built: Path
    _plain: dict[str, str] = field(default_factory=dict)
    _lines: dict[tuple[object, ...], str] = field(default_factory=dict)
    _xids: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        Path(f"{self.path}.calls").write_bytes(bytes(_SLOTS * _SLOT.size))
        self._write()

    @property
    def environment(self) -> dict[str, str]:
        """What a process needs so that it loads this driver."""
        return {"SIMDRIVER_STATE": str(self.path), "LD_LIBRARY_PATH": str(self.built)}

    def set(self, gpu: int = ALL, **values: int | str | None) -> SimDriver:
        for name, value in values.items():
            self._lines["set", gpu, name] = f"gpu {gpu} {name} {_word(value)}"
        return self._write()

    def count(self, gpus: int) -> SimDriver:
        return self._plainly(count=gpus)

    def live(self) -> SimDriver:
        """Let the counters grow with the wall clock; they stand still otherwise."""
        return self._plainly(live=1)

    def versions(self, driver: str, nvml: str, cuda: int) -> SimDriver:
        return self._plainly(driver=driver, nvml=nvml, cuda=cuda)

    def lose(self, gpu: int) -> SimDriver:
        """Every call on it answers GPU_IS_LOST; the count stays."""
        return self.set(gpu, lost=1)

    def remove(self, gpu: int) -> SimDriver:
        """It is no longer enumerated."""
        return self.set(gpu, present=0)

    def restore(self, gpu: int) -> SimDriver:
        return self.set(gpu, present=1, lost=0)

    def error(self, function: str, code: int, gpu: int = ALL) -> SimDriver:
        """`function` answers `code` (0 heals it); "*" is every function, "nvmlInit" the start."""
        return self._fault(function, gpu, code, 0)

    def delay(self, function: str, seconds: float, gpu: int = ALL) -> SimDriver:
        """`function` hangs so long; a shorter delay set meanwhile lets a hanging call return."""
        return self._fault(function, gpu, 0, seconds)

    def field_value(self, gpu: int, number: int, value: int | None, code: int = 0) -> SimDriver:
        self._lines["field", gpu, number] = f"gpu {gpu} field {number} -1 {_word(value)} {code}"
        return self._write()

    def link(self, gpu: int, link: int, up: int = 1, crc: int = 0, replay: int = 0) -> SimDriver:
        self._lines["link", gpu, link] = f"gpu {gpu} link {link} {up} {crc} {replay} 0"
        return self._write()

    def process(self, gpu: int, pid: int, memory: int | None, instance: int = GI_NONE) -> SimDriver:
        line = f"gpu {gpu} process {pid} {_word(memory)} {instance}"
        self._lines["process", gpu, pid] = line
        return self._write()

    def end_process(self, gpu: int, pid: int) -> SimDriver:
        del self._lines["process", gpu, pid]
        return self._write()

    def mig(self, gpu: int, instance: int, profile: str, total: int, used: int) -> SimDriver:
        """One MIG device in GPU instance `instance`, compute instance 0."""
        uuid = f"MIG-5e7a1f00-{gpu:04d}-4000-8000-{instance:012d}"
        name = f"NVIDIA H100 80GB HBM3 MIG {profile}"
        self._lines["mig", gpu, instance] = (
            f"gpu {gpu} mig {instance} 0 {total} {used} {uuid} {name}"
        )
        return self.set(gpu, mig_mode=1)

    def xid(self, gpu: int, code: int, instance: int = GI_NONE) -> SimDriver:
        """One more XID event, for the event sets that are registered by now."""
        self._xids.append(f"xid {len(self._xids) + 1} {gpu} {code} {instance}")
        return self._write()

    def calls(self) -> Counter[str]:
        """How often each function was called since the start, by all processes together."""
        slots = _SLOT.iter_unpack(Path(f"{self.path}.calls").read_bytes())
        return Counter({name.rstrip(b"\0").decode(): n for name, n in slots if n})

    def _fault(self, function: str, gpu: int, code: int, seconds: float) -> SimDriver:
        self._lines["fault", function, gpu] = f"fault {function} {gpu} {code} {seconds}"
        if not code and not seconds:
            del self._lines["fault", function, gpu]
        return self._write()

    def _plainly(self, **values: int | str) -> SimDriver:
        self._plain.update({name: f"{name} {value}" for name, value in values.items()})
        return self._write()

    def _write(self) -> SimDriver:
        # Whole-node lines first, so that a word about one GPU wins over a word about all.
        lines = sorted(self._lines.items(), key=lambda item: item[0][1] != ALL)
        text = [*self._plain.values(), *(line for _, line in lines), *self._xids]
        fresh = self.path.with_suffix(".new")
        fresh.write_text("\n".join(text) + "\n")
        os.replace(fresh, self.path)
        return self


def _word(value: int | str | None) -> str:
    return "NA" if value is None else str(value)
