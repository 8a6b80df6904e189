"""Replays a day of 8 GPUs at 10 s: about 300 series, 2.6 million samples, all rules.

Run: python benchmarks/replay_day.py [--keep FOLDER]. Goal: at most 30 s on two cores, of which at
most 8 s for reading and cutting into batches.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from gpudiag.agent.recording import reader
from gpudiag.agent.recording.meta import Meta
from gpudiag.agent.recording.timeline import Columns, Floats
from gpudiag.agent.recording.writer import RecordingWriter
from gpudiag.agent.replay import MIN_STEP, fresh_engine, replay
from gpudiag.probes import Event, Sample, labels

START = 1_767_225_600.0
STEP, SPAN = 10.0, 86_400.0
GPUS = 8
HOT_GPU, HOT_FROM, HOT_UNTIL = 5, 46_800.0, 48_000.0
XID_GPU, XID_AT = 3, 21_600.0
GIB = 1024.0**3
SEED = 20_260_101

AT = np.arange(0.0, SPAN, STEP)
HOT = (AT >= HOT_FROM) & (AT < HOT_UNTIL)


class Day:
    """The values of one day: a load that rises and falls with the hours, and noise upon it."""

    def __init__(self) -> None:
        self._noise = np.random.default_rng(SEED)
        self._load = 0.75 + 0.2 * np.sin(2 * np.pi * (AT / SPAN - 0.3))

    def around(self, scale: float, base: float = 0.0, spread: float = 0.02) -> Floats:
        """Follows the load."""
        return base + scale * self._load * self._noise.normal(1.0, spread, len(AT))

    def rising(self, rate: float) -> Floats:
        """A counter that rises with the load, `rate` a second at full load."""
        return np.round(np.cumsum(self.around(rate * STEP)))

    def columns(self) -> Iterator[Columns]:
        """Every series of the node."""
        for gpu in range(GPUS):
            who = {"uuid": f"GPU-{gpu:08d}-5c2f-4a6e-9a51-0d6b7e3f1a2b", "gpu": str(gpu)}
            bus = f"00000000:{0x1B + 0x10 * gpu:02X}:00.0"
            yield _column("gpu_info", np.ones(len(AT)), pci_bus_id=bus, name="NVIDIA H100", **who)
            for name, extra, values in self._gpu(gpu == HOT_GPU):
                yield _column(f"gpu_{name}", values, **extra, **who)
        for name, extra, values in self._host():
            yield _column(name, values, **extra)

    def _gpu(self, hot: bool) -> Iterator[tuple[str, dict[str, str], Floats]]:
        heat = np.where(HOT & hot, 26.0, 0.0)
        limited = (heat > 0.0).astype(float)
        for name, value in _STEADY.items():
            yield name, {}, np.full(len(AT), value)
        for name, scale in _LOADED.items():
            yield name, {}, self.around(scale)
        for name, rate in _COUNTED.items():
            yield name, {}, self.rising(rate)
        # Training holds its memory the whole day, whatever the load.
        yield "memory_used_bytes", {}, np.round(self._noise.normal(66e9, 2e7, len(AT)))
        yield "temperature_celsius", {"sensor": "core"}, self.around(35.0, 30.0) + heat
        yield "temperature_celsius", {"sensor": "memory"}, self.around(30.0, 40.0)
        yield "temperature_margin_celsius", {}, self.around(-35.0, 57.0) - heat
        yield "clock_hertz", {"clock": "sm"}, self.around(1e7, 1.97e9) * (1.0 - 0.4 * limited)
        yield "clock_hertz", {"clock": "memory"}, np.full(len(AT), 2.619e9)
        for reason in ("hw_thermal", "sw_thermal", "power_brake", "power_cap", "hw_slowdown"):
            slowed = limited if reason in ("hw_thermal", "hw_slowdown") else np.zeros(len(AT))
            yield "throttle_active", {"reason": reason}, slowed
            yield "throttle_seconds_total", {"reason": reason}, np.cumsum(slowed * STEP)
        for kind in ("corrected", "uncorrected"):
            yield "ecc_errors_total", {"kind": kind, "scope": "volatile"}, np.zeros(len(AT))

    def _host(self) -> Iterator[tuple[str, dict[str, str], Floats]]:
        yield "gpus", {}, np.full(len(AT), float(GPUS))
        yield "gpus_expected", {}, np.full(len(AT), float(GPUS))
        yield "host_cpu_utilization_ratio", {}, self.around(0.5)
        yield "host_load1", {}, self.around(60.0)
        yield "host_memory_total_bytes", {}, np.full(len(AT), 2048 * GIB)
        yield "host_memory_available_bytes", {}, self.around(-300 * GIB, 1500 * GIB)
        for resource_name in ("cpu", "memory", "io"):
            for kind in ("some", "full"):
                extra = {"resource": resource_name, "kind": kind}
                yield "host_pressure_ratio", extra, self.around(0.02, spread=0.3)
        for device in range(4):
            yield "ib_link_downed_total", {"device": f"mlx5_{device}", "port": "1"}, AT * 0.0


_STEADY = {
    **{"memory_total_bytes": 80 * GIB, "memory_reserved_bytes": 0.6 * GIB, "fabric_state": 3.0},
    **{"power_limit_watts": 700.0, "pcie_link_generation": 5.0, "pcie_link_generation_max": 5.0},
    **{"pcie_link_width": 16.0, "pcie_link_width_max": 16.0, "row_remap_pending": 0.0},
    **{"row_remap_failed": 0.0, "recovery_action": 0.0, "pcie_replays_total": 3.0},
}
_LOADED = {
    **{"utilization_ratio": 1.0, "memory_bandwidth_ratio": 0.6, "sm_active_ratio": 0.9},
    **{"power_watts": 650.0, "tensor_active_ratio": 0.5},
}
_COUNTED = {
    **{"energy_joules_total": 650.0, "pcie_rx_bytes_total": 5e9, "pcie_tx_bytes_total": 3e9},
    **{"nvlink_rx_bytes_total": 2e11, "nvlink_tx_bytes_total": 2e11},
}


def _column(metric: str, values: Floats, /, **pairs: str) -> Columns:
    return (f"gpudiag_{metric}", labels(**pairs)), AT, values


def _events() -> list[Event]:
    bus = f"0000:{0x1B + 0x10 * XID_GPU:02x}:00"
    line = f"NVRM: Xid (PCI:{bus}): 94, pid=4242, name=python, Contained: CE User Channel (0x9)."
    return [Event(START + XID_AT + 3.2, "kmsg", line)]


def record(target: Path) -> tuple[int, int]:
    """Write the day to `target`; gives the numbers of series and samples."""
    columns = list(Day().columns())
    keys = [key for key, _, _ in columns]
    rows = np.stack([values for _, _, values in columns], axis=1).tolist()
    writer = RecordingWriter(target, Meta("bench", "benchmark", START), max_bytes=2**31)
    events = _events()
    for at, row in zip((START + AT).tolist(), rows, strict=True):
        due = [e for e in events if at - STEP < e.time <= at]
        writer.add([Sample(*key, at, v) for key, v in zip(keys, row, strict=True)], due)
    writer.close(START + SPAN)
    return len(keys), len(keys) * len(AT)


def measure(folder: Path) -> dict[str, object]:
    """Seconds for each part of the replay, and what it found."""
    began = time.perf_counter()
    timeline = reader.read(folder)
    read = time.perf_counter()
    for _ in timeline.batches(max(MIN_STEP, timeline.interval)):
        pass
    cut = time.perf_counter()
    run = replay(timeline, fresh_engine())
    ended = time.perf_counter()
    return {
        "read_s": round(read - began, 2),
        "batches_s": round(cut - read, 2),
        "replay_s": round(ended - cut, 2),
        "total_s": round(ended - cut + read - began, 2),
        "peak_rss_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "findings": [f"{f.id} {f.cause} {f.state} {f.raised_at}" for f in run.findings()],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keep", type=Path, help="a folder to keep the recording in, for reuse")
    keep: Path | None = parser.parse_args().keep
    with tempfile.TemporaryDirectory() as scratch:
        target = (keep or Path(scratch)) / "day"
        if not target.exists():
            began = time.perf_counter()
            series, samples = record(target)
            taken = time.perf_counter() - began
            print(f"wrote {samples} samples of {series} series in {taken:.1f} s", file=sys.stderr)
        print(json.dumps(measure(target), indent=1))


if __name__ == "__main__":
    main()
