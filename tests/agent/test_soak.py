"""The agent's memory over an accelerated day: what it holds after an hour is what it holds."""

from __future__ import annotations

import gc
import math
import queue
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from gpudiag.agent.clock import Clock
from gpudiag.agent.config import Config
from gpudiag.agent.daemon import agent_info
from gpudiag.agent.engine import Engine, window_for
from gpudiag.agent.exporters.prometheus import Renderer
from gpudiag.agent.exporters.view import Snapshots
from gpudiag.agent.findings.book import Book
from gpudiag.agent.findings.store import Store
from gpudiag.agent.inventory import Inventory
from gpudiag.agent.live import LiveView
from gpudiag.agent.recording.blackbox import BlackBox
from gpudiag.agent.rules import RULES, default_limits
from gpudiag.agent.scheduler import Batch
from gpudiag.agent.window.archive import Archive
from gpudiag.agent.writer import Writer
from gpudiag.probes import Event, Labels, Sample, labels

START = 1.7e9
STEP = 10.0
HOUR = 3600.0
GPUS = [labels(uuid=f"GPU-{n:08d}", gpu=str(n)) for n in range(8)]
WORKER_LIVES = HOUR
XID_EVERY = 900.0
XIDS = ("13", "31", "94")

KEPT_PER_HOUR = 300
"""Objects of four findings and of eight processes' series; one lost in each batch is 360 more."""

NOISE_OBJECTS, MOST_MIB = 700, 6.0

PER_GPU: dict[str, tuple[float, dict[str, str]]] = {
    "memory_total_bytes": (80e9, {}),
    "utilization_ratio": (0.9, {}),
    "memory_bandwidth_ratio": (0.5, {}),
    "sm_active_ratio": (0.8, {}),
    "power_watts": (600.0, {}),
    "temperature_celsius": (60.0, {"sensor": "core"}),
    "temperature_margin_celsius": (25.0, {}),
    "clock_hertz": (1.9e9, {"clock": "sm"}),
    "throttle_active": (0.0, {"reason": "hw_thermal"}),
    "throttle_seconds_total": (0.0, {"reason": "hw_thermal"}),
    "ecc_errors_total": (0.0, {"kind": "corrected", "scope": "volatile"}),
    "row_remap_pending": (0.0, {}),
    "pcie_link_generation": (5.0, {}),
    "pcie_link_width": (16.0, {}),
}
OF_HOST = {
    "gpudiag_gpus": 8.0,
    "gpudiag_gpus_expected": 8.0,
    "gpudiag_host_load1": 60.0,
    "gpudiag_host_cpu_utilization_ratio": 0.5,
    "gpudiag_host_memory_total_bytes": 2e12,
    "gpudiag_host_memory_available_bytes": 1e12,
}


class Time:
    """Moves when told."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> float:
        return self.now


def gpu_samples(now: float, number: int, gpu: Labels) -> Iterator[Sample]:
    wave = 1.0 + 0.05 * math.sin(now / 977.0 + number)
    yield Sample("gpudiag_gpu_info", _with(gpu, pci_bus_id=_bus(number)), now, 1.0)
    for name, (value, extra) in PER_GPU.items():
        yield Sample(f"gpudiag_gpu_{name}", _with(gpu, **extra), now, value * wave)
    # Held whatever the load: what moves with it would be taken for growth.
    yield Sample("gpudiag_gpu_memory_used_bytes", gpu, now, 60e9)
    # Processes come and go: each leaves a series behind.
    pid = str(1000 + int(now / WORKER_LIVES) * 8 + number)
    process = _with(gpu, pid=pid, process="python")
    yield Sample("gpudiag_gpu_process_memory_bytes", process, now, 50e9)


def batch(now: float) -> Batch:
    """What a node of eight GPUs tells at `now`."""
    samples = [s for n, gpu in enumerate(GPUS) for s in gpu_samples(now, n, gpu)]
    samples += [Sample(name, (), now, value) for name, value in OF_HOST.items()]
    turn, into = divmod(now - START, XID_EVERY)
    if into:
        return samples, []
    code, bus = XIDS[int(turn) % len(XIDS)], _bus(int(turn) % 8).removesuffix(".0")
    line = f"NVRM: Xid (PCI:{bus}): {code}, pid={int(turn)}, name=python, Ch 00000008"
    return samples, [Event(now, "kmsg", line)]


def _with(gpu: Labels, **extra: str) -> Labels:
    return labels(**dict(gpu), **extra)


def _bus(number: int) -> str:
    return f"0000:{0x1B + number:02x}:00.0"


class Agent:
    """All of the agent but probes and sockets, on a clock of its own."""

    def __init__(self, folder: Path) -> None:
        self.time = Time()
        self.batches: queue.Queue[Batch] = queue.Queue()
        clock = Clock(self.time, self.time)
        window = window_for(RULES, archive=Archive(folder / "window.db"))
        window.restore(START)
        limits = {name: default_limits(rule) for name, rule in RULES.items()}
        black_box = BlackBox(folder, after=300.0, max_bytes=2**22, later=lambda work: work())
        self.writer = Writer(
            Engine(RULES, limits, window, Book(RULES)),
            Store(folder / "findings.db"),
            self.batches,
            clock,
            about_self=lambda now: [Sample("gpudiag_agent_resident_bytes", (), now, 1e8)],
            observers=[Inventory(8), black_box],
        )
        info = agent_info(Config(), START)
        self.renderer = Renderer(Snapshots(LiveView(info, self.writer, clock.now, list)))

    def live(self, seconds: float) -> None:
        for _ in range(int(seconds / STEP)):
            self.batches.put(batch(self.time.now))
            self.writer.turn(0.0)
            if self.time.now % 60.0 == 0.0:
                self.renderer.render()
            self.time.now += STEP


def held() -> tuple[int, float]:
    """Objects that Python holds, and MiB resident: numpy's and sqlite's are only in the latter."""
    gc.collect()
    resident: int = psutil.Process().memory_info().rss
    return sys.getallocatedblocks(), resident / 2**20


def soak(folder: Path, hours: int) -> tuple[int, float]:
    """What the agent grew by after its first hour: objects beyond what it is to keep, and MiB."""
    agent = Agent(folder)
    agent.live(HOUR)
    objects, resident = held()
    agent.live((hours - 1) * HOUR)
    later = held()
    assert agent.writer.engine.book.raised.total() >= hours
    return later[0] - objects - KEPT_PER_HOUR * (hours - 1), later[1] - resident


def test_three_hours_leave_no_more_memory_than_one(tmp_path):
    objects, resident = soak(tmp_path, 3)
    assert objects < NOISE_OBJECTS
    assert resident < MOST_MIB


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_day_leaves_no_more_memory_than_an_hour(tmp_path):
    objects, resident = soak(tmp_path, 24)
    assert objects < NOISE_OBJECTS
    assert resident < MOST_MIB
