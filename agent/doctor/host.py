"""Doctor's lines about the host: processors, memory, control group, disks, shared memory."""

from __future__ import annotations

from gpudiag.agent.doctor.look import Look
from gpudiag.agent.doctor.report import Line, judged
from gpudiag.probes.disks import Space

AREA = "host"
SHM = "shared memory"
GIB = 1024**3
MIB = 1024**2

SMALL_SHM = 1 * GIB
"""Container runtimes give 64 MiB; data loader workers and NCCL pass whole batches through it."""


def lines(look: Look, shm: Space | None) -> list[Line]:
    """The host's lines; `shm` is the room in /dev/shm as this process sees it."""
    status = look.statuses.get("host")
    if status is None or not (status.available and status.ok) or "host" in look.silent:
        seen = status.detail if status and status.detail else "no answer from the host probe"
        return [Line(AREA, "host", "unknown", seen), _shared_memory(shm)]
    return [_cpu(look), *_memory(look), *_groups(look), *_disks(look), _shared_memory(shm)]


def _cpu(look: Look) -> Line:
    busy, load = look.value("gpudiag_host_cpu_utilization_ratio"), look.value("gpudiag_host_load1")
    facts = [] if busy is None else [f"{busy:.0%} busy"]
    facts += [] if load is None else [f"load {load:.1f}"]
    for resource in ("cpu", "io"):
        stalled = look.value("gpudiag_host_pressure_ratio", resource=resource, kind="some")
        facts += [] if stalled is None else [f"{stalled:.0%} of the time stalled on {resource}"]
    return judged(Line(AREA, "processors", "ok", ", ".join(facts)), look.of("cpu-pressure"))


def _memory(look: Look) -> list[Line]:
    total = look.value("gpudiag_host_memory_total_bytes")
    available = look.value("gpudiag_host_memory_available_bytes")
    if total is None or available is None:
        return []
    seen = f"{available / GIB:.1f} of {total / GIB:.1f} GiB available"
    stalled = look.value("gpudiag_host_pressure_ratio", resource="memory", kind="full")
    if stalled is not None:
        seen += f", {stalled:.0%} of the time all stalled on memory"
    return [judged(Line(AREA, "memory", "ok", seen), look.of("host-memory-pressure"))]


def _groups(look: Look) -> list[Line]:
    found = []
    for point in look.window.latest("gpudiag_cgroup_memory_limit_bytes"):
        group = point.labels.get("cgroup", "")
        used = look.value("gpudiag_cgroup_memory_bytes", cgroup=group)
        kills = look.value("gpudiag_cgroup_oom_kills_total", cgroup=group)
        seen = f"limit {point.value / GIB:.1f} GiB"
        seen += "" if used is None else f", {used / GIB:.1f} GiB used"
        seen += f", {kills:.0f} processes killed for it" if kills else ""
        found.append(Line(AREA, f"control group {group}", "note" if kills else "ok", seen))
    return found


def _disks(look: Look) -> list[Line]:
    found = []
    for point in look.window.latest("gpudiag_filesystem_size_bytes"):
        mount = point.labels["mountpoint"]
        room = look.value("gpudiag_filesystem_available_bytes", mountpoint=mount)
        if room is not None:
            seen = f"{room / GIB:.1f} of {point.value / GIB:.1f} GiB available"
            mine = look.about("mountpoint", mount)
            found.append(judged(Line(AREA, f"disk {mount}", "ok", seen), mine))
    return found


def _shared_memory(shm: Space | None) -> Line:
    if shm is None:
        return Line(AREA, SHM, "absent", "not mounted")
    seen = f"{shm.size / MIB:.0f} MiB, {shm.available / MIB:.0f} MiB of it free"
    if shm.size >= SMALL_SHM:
        return Line(AREA, SHM, "ok", seen)
    todo = (
        "Enough for the agent, too small for training: give the training container an emptyDir of"
        " medium Memory at /dev/shm (docker: --shm-size or --ipc=host)."
    )
    return Line(AREA, SHM, "note", seen, todo)
