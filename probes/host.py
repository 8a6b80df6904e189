"""The machine under the GPUs: CPU, load, pressure stalls, memory, uptime and cgroup memory.

Read from /proc directly, with files kept open: a read of all costs well under a millisecond.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from gpudiag.probes import Record, Sample, labels
from gpudiag.probes.errors import Unavailable
from gpudiag.probes.host_cgroup import CgroupMemory
from gpudiag.probes.kept_file import KeptFile

RESOURCES = ("cpu", "memory", "io")
PRESSURE = {
    (resource, kind): labels(resource=resource, kind=kind)
    for resource in RESOURCES
    for kind in ("some", "full")
}
FILES = ("stat", "loadavg", "meminfo", "uptime", *(f"pressure/{one}" for one in RESOURCES))


def parse_cpu(stat: str) -> tuple[float, float] | None:
    """(busy, total) ticks since boot from /proc/stat; waiting for I/O is idle, stolen time busy."""
    words = stat.partition("\n")[0].split()
    if len(words) < 6 or words[0] != "cpu":
        return None
    # Guest time is already in user and nice: only the first eight fields add up.
    ticks = [float(word) for word in words[1:9]]
    total = sum(ticks)
    return total - ticks[3] - ticks[4], total


def parse_meminfo(text: str) -> dict[str, float]:
    """Bytes by name from /proc/meminfo."""
    rows = (line.split() for line in text.splitlines())
    return {row[0].rstrip(":"): float(row[1]) * 1024 for row in rows if len(row) == 3}


def parse_pressure(text: str) -> dict[str, float]:
    """Share of the last ten seconds (0-1) in which some or all tasks were stalled."""
    found = {}
    for line in text.splitlines():
        kind, _, rest = line.partition(" avg10=")
        if rest:
            found[kind] = float(rest.split()[0]) / 100
    return found


def _no_pids() -> Iterable[int]:
    return ()


class Host:
    """The probe. `pids` names the processes whose cgroups are watched beside the agent's own."""

    name = "host"
    cadence = 5.0
    metrics = frozenset(
        {
            "gpudiag_host_uptime_seconds",
            "gpudiag_host_cpu_utilization_ratio",
            "gpudiag_host_load1",
            "gpudiag_host_pressure_ratio",
            "gpudiag_host_memory_total_bytes",
            "gpudiag_host_memory_available_bytes",
            *CgroupMemory.metrics,
        }
    )

    def __init__(
        self,
        proc: Path = Path("/proc"),
        sys: Path = Path("/sys"),
        *,
        clock: Callable[[], float] = time.time,
        pids: Callable[[], Iterable[int]] = _no_pids,
    ) -> None:
        self._clock = clock
        self._files = {name: KeptFile(proc / name) for name in FILES}
        self._cgroups = CgroupMemory(proc, sys / "fs/cgroup", pids)
        self._cpu: tuple[float, float] | None = None

    def read(self) -> list[Record]:
        """All that is known now; CPU utilisation from the second read on."""
        now = self._clock()
        pairs = [*self._cpu_use(), *self._memory(), *self._single()]
        if not pairs:
            raise Unavailable("no /proc to read: mount the host's /proc into the container")
        samples = [Sample(metric, (), now, value) for metric, value in pairs]
        return [*samples, *self._pressure(now), *self._cgroups.read(now)]

    def close(self) -> None:
        for file in self._files.values():
            file.close()
        self._cgroups.close()

    def _cpu_use(self) -> Iterator[tuple[str, float]]:
        before, self._cpu = self._cpu, parse_cpu(self._files["stat"].read() or "")
        if before and self._cpu and self._cpu[1] > before[1]:
            ratio = (self._cpu[0] - before[0]) / (self._cpu[1] - before[1])
            # The kernel's idle counter may step back a tick, which is no negative use.
            yield "gpudiag_host_cpu_utilization_ratio", min(max(ratio, 0.0), 1.0)

    def _memory(self) -> Iterator[tuple[str, float]]:
        found = parse_meminfo(self._files["meminfo"].read() or "")
        for key, name in (("MemTotal", "total"), ("MemAvailable", "available")):
            if key in found:
                yield f"gpudiag_host_memory_{name}_bytes", found[key]

    def _single(self) -> Iterator[tuple[str, float]]:
        for name, metric in (
            ("loadavg", "gpudiag_host_load1"),
            ("uptime", "gpudiag_host_uptime_seconds"),
        ):
            words = (self._files[name].read() or "").split()
            if words:
                yield metric, float(words[0])

    def _pressure(self, now: float) -> Iterator[Sample]:
        for resource in RESOURCES:
            text = self._files[f"pressure/{resource}"].read() or ""
            for kind, value in parse_pressure(text).items():
                pairs = PRESSURE.get((resource, kind))
                # The whole machine cannot stall on CPU: the kernel prints a constant 0 there.
                if pairs and (resource, kind) != ("cpu", "full"):
                    yield Sample("gpudiag_host_pressure_ratio", pairs, now, value)
