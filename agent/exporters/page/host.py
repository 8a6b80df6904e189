"""The host in one row: CPU, memory, pressure and the fullest disk."""

from __future__ import annotations

from gpudiag.agent.exporters import words
from gpudiag.agent.exporters.page import charts
from gpudiag.agent.exporters.page.gpus import Cell, Readings
from gpudiag.agent.exporters.view import Snapshot

_PRESSED = 0.2
_DISK_FULL = 0.95


def cells(snapshot: Snapshot) -> tuple[Cell, ...]:
    """What the host reports now; a column without data is left out."""
    host = Readings([r for r in snapshot.samples if not r[0].startswith("gpudiag_gpu_")])
    found = (_cpu(host), _memory(host), _pressure(host), _kills(host), _disk(host))
    return tuple(cell for cell in found if cell.text)


def _cpu(host: Readings) -> Cell:
    used, load = host.value("gpudiag_host_cpu_utilization_ratio"), host.value("gpudiag_host_load1")
    parts = [] if used is None else [f"{used:.0%} busy"]
    if load is not None:
        parts.append(f"load {load:.1f}")
    return Cell("CPU", ", ".join(parts))


def _memory(host: Readings) -> Cell:
    total = host.value("gpudiag_host_memory_total_bytes")
    left = host.value("gpudiag_host_memory_available_bytes")
    if not total or left is None:
        return Cell("Memory", "")
    text = words.share(left, total, "bytes") + " free"
    share = 1.0 - left / total
    picture = charts.bar(share, f"{share:.0%} of memory in use")
    return Cell("Memory", text, picture, bad=share > _DISK_FULL)


def _pressure(host: Readings) -> Cell:
    some = {
        pairs.get("resource", "?"): value
        for pairs, value in host.all("gpudiag_host_pressure_ratio")
        if pairs.get("kind") == "some"
    }
    text = ", ".join(f"{resource} {value:.0%}" for resource, value in some.items())
    return Cell("Time spent waiting", text, bad=max(some.values(), default=0.0) > _PRESSED)


def _kills(host: Readings) -> Cell:
    kills = sum(value for _, value in host.all("gpudiag_cgroup_oom_kills_total"))
    return Cell(
        "Killed for memory",
        f"{kills:.0f} process{'es' if kills > 1 else ''}" if kills else "",
        bad=True,
    )


def _disk(host: Readings) -> Cell:
    sizes = {p.get("mountpoint"): v for p, v in host.all("gpudiag_filesystem_size_bytes") if v}
    shares = [
        (1.0 - left / sizes[pairs.get("mountpoint")], pairs.get("mountpoint", "?"), left)
        for pairs, left in host.all("gpudiag_filesystem_available_bytes")
        if pairs.get("mountpoint") in sizes
    ]
    if not shares:
        return Cell("Fullest disk", "")
    share, mountpoint, left = max(shares)
    text = f"{mountpoint}: {words.quantity(left, 'bytes')} free ({share:.0%} full)"
    return Cell("Fullest disk", text, charts.bar(share, f"{share:.0%} full"), share > _DISK_FULL)
